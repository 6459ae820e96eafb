/**
 * Forks stored runs: starts a run in a session of its own that continues from an earlier revision of another run.
 *
 * A fork does not change the original, which may continue. The fork reads the events that it builds on from the original's journal.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Cancellation from "../agent/Cancellation.ts"
import { turnOnFailure } from "../agent/internal/eventLoop.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { Runtime } from "../agent/Runtime.ts"
import { evolve, evolveAll } from "../domain/evolve.ts"
import * as History from "../domain/History.ts"
import type { Revision, RunId, SessionId, Timestamp } from "../domain/Id.ts"
import { withoutUndefined } from "../domain/internal/untyped.ts"
import { type Message, textOf } from "../domain/Message.ts"
import { RevisionNotFound, RunSuspended, SessionTaken } from "../domain/RunError.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { RunState } from "../domain/RunState.ts"
import { decodePrompt } from "../run/internal/decodePrompt.ts"
import { toResult } from "../run/internal/result.ts"
import { checkCallerOptions, checkIds, startRun } from "../run/internal/staging.ts"
import { answering } from "../run/internal/startOptions.ts"
import type { RunResult } from "../run/RunResult.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import type { StoredRun } from "../store/RunStorePort.ts"
import { create, suspensionOf } from "./internal/continueStored.ts"
import { foldStored } from "./internal/foldStored.ts"
import { forkShape, storedRunShape } from "./internal/shapes.ts"
import { storeParts } from "./internal/storeParts.ts"
import type { RunPromptStoredError } from "./runPromptStored.ts"
import type { ForkInput, StoredRunOptions } from "./storedInput.ts"

/**
 * Starts a run, the fork, in a new session. It continues from an earlier revision of another run, the original. Drives the fork until it is
 * held or has ended.
 *
 * **Details**
 *
 * The fork has the original's messages up to the revision, and then the prompt. It repeats nothing and undoes nothing: the side effects of
 * the original stay, from before the revision and after it, and the fork's model does not see what came after. The original's requests are
 * not opened again: if the revision is in the middle of a turn, each call without a result gets a result that says so, and sub-agents stay
 * with the original. Grants with the scope of a session apply to the fork; grants with the scope of a run do not. The fork inherits the
 * limits, the policy and the context that the original's caller gave; `input` can replace the policy, the context, and each limit on its
 * own.
 *
 * The original may be running, held or ended, and may be a run of another agent; it may not be a sub-agent's run. It does not change, and
 * it cannot be removed while a fork builds on it. A fork can be forked.
 *
 * **Errors**
 *
 * - `RunNotFound`, `RevisionNotFound` — check the id; choose a revision of the run.
 * - `SessionTaken` — choose another `sessionId`, or omit it.
 * - `RunRemoved` — the original was removed or replaced before the fork was stored.
 * - `RunExists` — a run has the id `newRunId`; if the call was repeated, that run is the fork.
 * - Those of `runPromptStored`, except `SessionBusy`.
 *
 * @category running
 * @since 0.1.0
 */
export const forkRun: <Output>(
  runtime: Runtime<Output>,
  input: ForkInput,
  options?: StoredRunOptions
) => Effect.Effect<RunResult<Output>, RunPromptStoredError | RevisionNotFound | SessionTaken, RunStore> =
  Effect.fn("fermata.forkRun")(function* <Output>(
    runtime: Runtime<Output>,
    given: ForkInput,
    options: StoredRunOptions = {}
  ) {
    const input = yield* checkCallerOptions(
      yield* requireOptions("forkRun", given ?? null, forkShape),
      runtime
    )
    yield* requireOptions("forkRun", options, storedRunShape)
    const { answeredBy, newRunId, runId, sessionId: chosenId, ...chosen } = input as Checked
    const ids = withoutUndefined({ runId: newRunId, sessionId: chosenId })
    const store = yield* RunStore
    const clock = yield* Clock.Clock
    yield* checkIds(ids)
    const prompt = yield* storeParts(store, runtime.scrubber, yield* decodePrompt(input.prompt))
    const stored = yield* store.load(runId)
    const original = yield* stateAt(stored, input.revision)
    const sessionId = chosenId ?? runtime.ids.sessionId(clock.currentTimeMillisUnsafe())
    // In the original's session, the run would be the next run and not a fork. The store refuses other sessions that have a run.
    if (sessionId === stored.head.sessionId)
      return yield* new SessionTaken({ runId: stored.head.runId, sessionId })
    const agent = yield* answering(runtime, { previous: original, under: stored.head.agent, answeredBy })
    const staged = yield* startRun(runtime, clock, {
      ...chosen,
      ...ids,
      prompt,
      agent,
      // The next run of a session builds on everything in a state except the session.
      previous: { ...original, sessionId },
      continues: original,
      asks: true
    })
    const token = Cancellation.make(options.cancellation ?? (yield* Cancellation.CancellationToken))
    const work = { ...options, runtime, store, token, suspension: suspensionOf(options) }
    const state = yield* create(work, staged, {
      state: original,
      saved: "unknown",
      createdAt: stored.head.createdAt
    }).pipe(
      Effect.catchTag("SessionBusy", ({ runId, sessionId }) =>
        Effect.fail(new SessionTaken({ runId, sessionId }))
      ),
      Effect.ensuring(Effect.sync(() => token.release()))
    )
    if (state.status === "running") return yield* new RunSuspended({ runId: state.runId })
    return yield* toResult<Output>(runtime, state)
  }, turnOnFailure)

/** An input with the brands of its ids. */
interface Checked extends ForkInput {
  readonly runId: RunId
  readonly newRunId?: RunId
  readonly sessionId?: SessionId
}

/** A revision of a run at which a turn ended: a good start for a fork, which can start at any revision of the run. */
export interface RewindPoint {
  readonly revision: Revision
  readonly at: Timestamp
  /** The number of the run's turns up to this revision. */
  readonly turn: number
  /**
   * The message that followed, on one line of at most 120 characters, or the names of the tools that it calls: a fork replaces it. Empty if
   * no message followed.
   */
  readonly preview: string
}

/**
 * Lists the revisions of a run at which a turn ended, oldest first. A user interface can offer them as points to fork from.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 * - `RunStoreError` — the store failed, or the journal of the run is damaged; see its `reason`.
 *
 * @category running
 * @since 0.1.0
 */
export const rewindPoints: (
  runId: string
) => Effect.Effect<ReadonlyArray<RewindPoint>, RunNotFound | RunStoreError, RunStore> = Effect.fn(
  "fermata.rewindPoints"
)(function* (runId: string) {
  const stored = yield* (yield* RunStore).load(runId as RunId)
  const { history } = yield* foldStored(stored)
  const messages = History.toArray(history)
  const points: Array<RewindPoint> = []
  let before: RunState | undefined
  for (const { event, state } of ownEvents(stored)) {
    if (isTurnEnded(before, event, state)) {
      points.push({
        revision: state.revision,
        at: event.at,
        turn: state.usage.turns,
        preview: previewOf(messages[History.size(state.history)])
      })
    }
    before = state
  }
  return points
})

/** The state of a run at a revision; by default at its last revision without an open call. */
const stateAt = Effect.fnUntraced(function* (stored: StoredRun, revision: number | undefined) {
  // Fails with `StoreUnreadable` if the journal cannot be folded.
  yield* foldStored(stored)
  const { revision: latest, runId } = stored.head
  let found: RunState | undefined
  for (const { state } of ownEvents(stored)) {
    if (revision === undefined ? state.calls.length === 0 : state.revision === revision) found = state
  }
  return (
    found ??
    (yield* new RevisionNotFound({
      runId,
      revision: typeof revision === "number" ? revision : Number.NaN,
      latest
    }))
  )
})

/** Yields the run's own events, each with the state after it. */
const ownEvents = function* ({ events, head }: StoredRun) {
  const inherited = events.length - head.revision
  let state = evolveAll(undefined, events.slice(0, inherited))
  for (const event of events.slice(inherited)) {
    state = evolve(state, event)
    yield { event, state }
  }
}

/** Whether an event ended a turn: a model response without calls, or the result of the last open call. */
const isTurnEnded = (before: RunState | undefined, event: RunEvent, state: RunState): boolean =>
  state.calls.length === 0 && (event._tag === "model.answered" || (before?.calls.length ?? 0) > 0)

const previewLength = 120

const previewOf = (message: Message | undefined): string => {
  if (message === undefined) return ""
  const said = textOf(message.content).replaceAll(/\s+/g, " ").trim()
  const calls = message.content.flatMap((part) => (part._tag === "toolCall" ? [part.name] : []))
  const characters = Array.from(said === "" ? calls.join(", ") : said)
  return characters.length > previewLength
    ? `${characters.slice(0, previewLength - 1).join("")}…`
    : characters.join("")
}
