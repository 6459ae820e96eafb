/**
 * Forks of stored runs: a new run, in a session of its own, that goes on from an earlier moment of another one.
 *
 * A journal is never cut. The original stays as it is, and may go on; the fork reads the part that it builds on from it.
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
import type { Revision, RunId, Timestamp } from "../domain/Id.ts"
import { withoutUndefined } from "../domain/internal/untyped.ts"
import { type Message, textOf } from "../domain/Message.ts"
import { RevisionNotFound, RunSuspended, SessionTaken } from "../domain/RunError.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { RunState } from "../domain/RunState.ts"
import { toResult } from "../run/internal/result.ts"
import { checkLimitsAndPolicy, checkIds, decodePrompt, startRun } from "../run/internal/staging.ts"
import { answering } from "../run/internal/startOptions.ts"
import type { RunResult } from "../run/RunResult.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import type { StoredRun } from "../store/RunStorePort.ts"
import { create, suspensionOf } from "./internal/continueStored.ts"
import { foldStored } from "./internal/foldStored.ts"
import { forkShape, storedRunShape } from "./internal/shapes.ts"
import type { RunPromptStoredError } from "./runPromptStored.ts"
import type { ForkInput, StoredRunOptions } from "./storedInput.ts"

/**
 * Starts a run in a new session from what another run was at an earlier moment, and drives it until it is held or over.
 *
 * **Details**
 *
 * The fork has the messages up to there, and then the prompt. Nothing that the original did is done again, and nothing is undone:
 * what its tools have done in the world, before that moment or after it, stays done. The model of a fork does not know what
 * came after. Nothing that the original waits for is asked again: at a revision in the middle of a turn, calls without a result
 * get one that says so, and its sub-agents stay its own. Grants for the session go along, as they do from one run of a session
 * to the next; those for the run do not. The limits and the policy that the caller of the original gave hold for the fork as well, as
 * far as it is given none.
 *
 * The original may be at work, held or over, and of another agent; it is read and left alone. It cannot be removed while a fork
 * builds on it. Forks can be forked.
 *
 * **Errors**
 *
 * - `RunNotFound`, `RevisionNotFound` — check the id; choose a revision of the run.
 * - `SessionTaken` — choose another `sessionId`, or leave it out.
 * - `RunRemoved` — the original was removed before the fork was stored.
 * - `RunExists` — a run has the `newRunId` already: it is the fork, if this was tried before.
 * - Those of `runPromptStored`.
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
    const input = yield* Effect.flatMap(requireOptions("forkRun", given, forkShape), checkLimitsAndPolicy)
    yield* requireOptions("forkRun", options, storedRunShape)
    const { answeredBy, newRunId, runId, sessionId: chosenId, ...chosen } = input
    const ids = withoutUndefined({ runId: newRunId, sessionId: chosenId })
    const store = yield* RunStore
    const clock = yield* Clock.Clock
    yield* checkIds(ids)
    const prompt = yield* decodePrompt(input.prompt)
    const stored = yield* store.load(runId)
    const original = yield* stateAt(stored, input.revision)
    const sessionId = chosenId ?? runtime.ids.sessionId(clock.currentTimeMillisUnsafe())
    // There it would not be a fork, but the next run. That any other session has none is the store's to see.
    if (sessionId === stored.head.sessionId)
      return yield* new SessionTaken({ runId: stored.head.runId, sessionId })
    const agent = yield* answering(runtime, { previous: original, under: stored.head.agent, answeredBy })
    const staged = startRun(runtime, clock, {
      ...chosen,
      ...ids,
      prompt,
      agent,
      // As if it were of the new session: all but the session is what the next run of a session builds on.
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

/** A moment of a run from which a fork can go on as from the end of a turn. */
export interface RewindPoint {
  readonly revision: Revision
  readonly at: Timestamp
  /** Turns until then. */
  readonly turn: number
  /** The beginning of the message that followed, on one line: what a fork from here replaces. Empty when none did. */
  readonly preview: string
}

/**
 * The revisions of a run at which a turn was closed, oldest first, for a user interface that offers to go back.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 *
 * @category running
 * @since 0.1.0
 */
export const rewindPoints: (
  runId: RunId
) => Effect.Effect<ReadonlyArray<RewindPoint>, RunNotFound | RunStoreError, RunStore> = Effect.fn(
  "fermata.rewindPoints"
)(function* (runId: RunId) {
  const stored = yield* (yield* RunStore).load(runId)
  const { history } = yield* foldStored(stored)
  const messages = History.toArray(history)
  const points: Array<RewindPoint> = []
  let before: RunState | undefined
  for (const { event, state } of own(stored)) {
    if (isTurnClosed(before, event, state)) {
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

/** The state of a run at one of its revisions, or at the last at which no call was open. */
const stateAt = Effect.fnUntraced(function* (stored: StoredRun, revision: number | undefined) {
  // A journal that cannot be folded is reported as everywhere else.
  yield* foldStored(stored)
  const { revision: latest, runId } = stored.head
  let found: RunState | undefined
  for (const { state } of own(stored)) {
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

/** The run's own events, each with the state that it leaves. */
const own = function* ({ events, head }: StoredRun) {
  const inherited = events.length - head.revision
  let state = evolveAll(undefined, events.slice(0, inherited))
  for (const event of events.slice(inherited)) {
    state = evolve(state, event)
    yield { event, state }
  }
}

/** Whether an event closed a turn: the answer has no calls, or the last of them got its result. */
const isTurnClosed = (before: RunState | undefined, event: RunEvent, state: RunState): boolean =>
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
