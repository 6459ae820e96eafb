/**
 * Runs prompts with a store: every event is in the journal, and any process that has the agent can continue the run by its id.
 *
 * A process claims a run before it drives it; a second process is refused with `RunBusy`. The store records decisions, once per
 * request, from any process and at any time; this function delivers them to the run.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { answersTo } from "../agent/BoundAgent.ts"
import * as Cancellation from "../agent/Cancellation.ts"
import { letTurn, turnOnFailure } from "../agent/internal/eventLoop.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import { traced } from "../agent/internal/userCode.ts"
import type { Runtime } from "../agent/Runtime.ts"
import type { RunId, SessionId } from "../domain/Id.ts"
import { hasKey } from "../domain/internal/untyped.ts"
import { AgentNotFound, RunSuspended, SessionBusy } from "../domain/RunError.ts"
import { decodePrompt } from "../run/internal/decodePrompt.ts"
import { toResult } from "../run/internal/result.ts"
import { checkCallerOptions, checkIds, startRun } from "../run/internal/staging.ts"
import { answering, inSession } from "../run/internal/startOptions.ts"
import type { RunResult } from "../run/RunResult.ts"
import { RunStore } from "../store/RunStore.ts"
import { RunExists, RunRemoved, type RunStoreError } from "../store/RunStoreError.ts"
import type { RunHead } from "../store/RunStorePort.ts"
import { continueStored, create, suspensionOf, type Work, type WorkError } from "./internal/continueStored.ts"
import { loadRun } from "./internal/loadRun.ts"
import { rememberedState } from "./internal/remembered.ts"
import { storedContinueShape, storedRunShape, storedStartShape } from "./internal/shapes.ts"
import { storeParts } from "./internal/storeParts.ts"
import type { StoredContinueInput, StoredRunOptions, StoredStartInput } from "./storedInput.ts"

/** Why a stored run was not driven until it was held or had ended. Acknowledged inputs and committed events are kept. */
export type RunPromptStoredError = WorkError | RunSuspended

/**
 * Runs a prompt, or continues a run by its id, until the run is held or has ended, with every event in the store.
 *
 * **Details**
 *
 * With a `prompt`, a run is started, once per id: a repeated start fails with `RunExists`. Without one, the run `runId` continues. A
 * completed or cancelled run returns its result; a failed run is resumed. With a `message`, the next run of its session is started after
 * a run that has ended. A run that still waits returns its open requests, after the approval callback, if there is one, was called with
 * them.
 *
 * **Errors**
 *
 * - Those of `runPrompt`.
 * - `RunNotFound`, `RunExists` — check the id.
 * - `RunBusy` — another process drives the run; the result will be in the store.
 * - `SessionBusy` — the session's last run has not ended, or another run has continued the session meanwhile.
 * - `RunRemoved` — the session's last run was removed or replaced before the new one was stored: start again.
 * - `RunConflict`, `LeaseLost` — another process has changed or claimed the run, or the lease has expired; continue it later.
 * - `RunStoreError` — the store failed; see its `reason`.
 * - `RunSuspended` — `suspension` or the close of the runtime stopped the drive; the run is in the store as of its last commit, and can
 *   be continued.
 *
 * @category running
 * @since 0.1.0
 */
export const runPromptStored: <Output>(
  runtime: Runtime<Output>,
  input: StoredStartInput | StoredContinueInput,
  options?: StoredRunOptions
) => Effect.Effect<RunResult<Output>, RunPromptStoredError, RunStore> = (runtime, input, options) =>
  traced(turnOnFailure(running(runtime, input, options)), "fermata.runPromptStored")

const running = Effect.fnUntraced(function* <Output>(
  runtime: Runtime<Output>,
  given: StoredStartInput | StoredContinueInput,
  options: StoredRunOptions = {}
) {
  const store = yield* RunStore
  // A caller that repeats a refused call at once must not block the event loop.
  yield* letTurn
  // An input without both keys is a start whose prompt is missing or misspelt.
  const isStart = hasKey(given, "prompt") || !hasKey(given, "runId")
  const read = yield* requireOptions(
    "runPromptStored",
    given ?? null,
    isStart ? storedStartShape : storedContinueShape
  )
  yield* requireOptions("runPromptStored", options, storedRunShape)
  if (isStart) yield* checkIds(read)
  const input = yield* checkCallerOptions(
    isStart ? { ...read, prompt: (read as StoredStartInput).prompt } : read,
    runtime
  )
  const head = input.runId === undefined ? undefined : yield* findHead(store, input.runId as RunId)
  if (head !== undefined && !answersTo(runtime.bound.agent, head.agent)) {
    return yield* new AgentNotFound({ agent: head.agent, known: [runtime.bound.agent.name] })
  }
  if ("prompt" in input && head !== undefined) {
    return yield* new RunExists({ runId: head.runId, status: head.status })
  }
  const token = Cancellation.make(options.cancellation ?? (yield* Cancellation.CancellationToken))
  const work = { ...options, runtime, store, token, suspension: suspensionOf(options) }
  const driving =
    "prompt" in input
      ? startStored(work, input)
      : continueStored(work, { ...input, runId: input.runId as RunId })
  const state = yield* Effect.ensuring(
    driving,
    Effect.sync(() => token.release())
  )
  const result = yield* toResult<Output>(runtime, state)
  // A running run was suspended, unless it waits for a definition that another program has.
  const isLeft = result.status === "interrupted" && (result.missing === undefined || isSuspended(work))
  if (state.status === "running" && isLeft) return yield* new RunSuspended({ runId: state.runId })
  return result
})

const isSuspended = ({ runtime, suspension }: Work): boolean =>
  suspension?.soon.reason() !== undefined || runtime.closed() !== undefined

type Store = RunStore["Service"]

const findHead = (store: Store, runId: RunId): Effect.Effect<RunHead | undefined, RunStoreError> =>
  Effect.catchTag(store.head(runId), "RunNotFound", () => Effect.succeed(undefined))

const startStored = Effect.fnUntraced(function* (work: Work, given: StoredStartInput) {
  const { runtime, store } = work
  const input = inSession(runtime, given)
  const clock = yield* Clock.Clock
  const prompt = yield* storeParts(store, runtime.scrubber, yield* decodePrompt(input.prompt))
  const previous = input.sessionId === undefined ? undefined : yield* lastOf(store, input.sessionId)
  const agent = yield* answering(runtime, {
    answeredBy: input.answeredBy,
    ...(previous === undefined ? {} : { previous: previous.state, under: previous.under })
  })
  return yield* create(
    work,
    yield* startRun(runtime, clock, {
      ...input,
      prompt,
      agent,
      asks: true,
      ...(previous === undefined ? {} : { previous: previous.state, decided: previous.decisions })
    }),
    previous
  )
})

/** The state that the session's next run builds on, and the agent with which that run was started. */
const lastOf = Effect.fnUntraced(function* (store: Store, sessionId: SessionId) {
  const last = yield* store.latest(sessionId)
  if (last === undefined) return undefined
  if (last.status === "running" || last.status === "held") {
    return yield* new SessionBusy({ sessionId, runId: last.runId, status: last.status })
  }
  const { saved, state } =
    rememberedState(store, last) ??
    (yield* Effect.catchTag(loadRun(store, last.runId), "RunNotFound", () =>
      Effect.fail(new RunRemoved({ runId: last.runId }))
    ))
  const decisions = last.status === "error" ? yield* store.decisions(last.runId) : []
  return { state, saved, decisions, under: last.agent, createdAt: last.createdAt }
})
