/**
 * Runs a prompt with a store: journaled as it goes, held on disk, continued by its id in any process.
 *
 * Whoever works on a run has claimed it; a second one is refused with `RunBusy`. Decisions are taken by the store, once per
 * request, and may be made by anybody at any time; this function takes them to the run.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { answersTo } from "../agent/BoundAgent.ts"
import * as Cancellation from "../agent/Cancellation.ts"
import { letTurn, turnOnFailure } from "../agent/internal/eventLoop.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { Runtime } from "../agent/Runtime.ts"
import type { RunId, SessionId } from "../domain/Id.ts"
import { AgentNotFound, RunSuspended, SessionBusy } from "../domain/RunError.ts"
import { toResult } from "../run/internal/result.ts"
import { checkLimitsAndPolicy, checkIds, decodePrompt, startRun } from "../run/internal/staging.ts"
import { answering } from "../run/internal/startOptions.ts"
import { traced } from "../run/internal/traced.ts"
import type { RunResult } from "../run/RunResult.ts"
import { RunStore } from "../store/RunStore.ts"
import { RunExists, RunRemoved, type RunStoreError } from "../store/RunStoreError.ts"
import type { RunHead } from "../store/RunStorePort.ts"
import { continueStored, create, suspensionOf, type Work, type WorkError } from "./internal/continueStored.ts"
import { loadRun } from "./internal/loadRun.ts"
import { rememberedState } from "./internal/remembered.ts"
import { storedContinueShape, storedRunShape, storedStartShape } from "./internal/shapes.ts"
import type { StoredContinueInput, StoredRunOptions, StoredStartInput } from "./storedInput.ts"

/** What can go wrong around a stored run. Nothing that was acknowledged is lost by any of these. */
export type RunPromptStoredError = WorkError | RunSuspended

/**
 * Runs a prompt until the run is held or over, with every step in the store.
 *
 * **Details**
 *
 * With a `prompt` a run is started, once for each id: a start that is tried again gets `RunExists`. Continuing a run that has ended
 * returns how it ended. Continuing one that still waits returns what it waits for, after the approval callback, where there is one, was
 * asked about that.
 *
 * **Errors**
 *
 * - Those of `runPrompt`.
 * - `RunNotFound`, `RunExists` — check the id.
 * - `RunBusy` — another process works on it; the result will be in the store.
 * - `SessionBusy` — the session's last run has not ended.
 * - `RunRemoved` — the session's last run was removed before the new one was stored: start again.
 * - `RunConflict`, `LeaseLost` — another process took over; continue the run later.
 * - `RunStoreError` — the store failed; see its `reason`.
 * - `RunSuspended` — `suspension` stopped the work on it; it is in the store as it stood.
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
  // Who is refused at once may ask again at once, for ever.
  yield* letTurn
  const isStart = "prompt" in given
  const read = yield* requireOptions(
    "runPromptStored",
    given,
    isStart ? storedStartShape : storedContinueShape
  )
  yield* requireOptions("runPromptStored", options, storedRunShape)
  if (isStart) yield* checkIds(read)
  const input = yield* checkLimitsAndPolicy(read)
  const head = input.runId === undefined ? undefined : yield* findHead(store, input.runId)
  if (head !== undefined && !answersTo(runtime.bound.agent, head.agent)) {
    return yield* new AgentNotFound({ agent: head.agent, known: [runtime.bound.agent.name] })
  }
  if ("prompt" in input && head !== undefined) {
    return yield* new RunExists({ runId: head.runId, status: head.status })
  }
  const token = Cancellation.make(options.cancellation ?? (yield* Cancellation.CancellationToken))
  const work = { ...options, runtime, store, token, suspension: suspensionOf(options) }
  const driving = "prompt" in input ? startStored(work, input) : continueStored(work, input)
  const state = yield* Effect.ensuring(
    driving,
    Effect.sync(() => token.release())
  )
  const result = yield* toResult<Output>(runtime, state)
  // At work, unless it waits for a definition that another program has.
  const isLeft = result.status === "interrupted" && (result.missing === undefined || isSuspended(work))
  if (state.status === "running" && isLeft) return yield* new RunSuspended({ runId: state.runId })
  return result
})

const isSuspended = ({ suspension }: Work): boolean => suspension?.soon.reason() !== undefined

type Store = RunStore["Service"]

const findHead = (store: Store, runId: RunId): Effect.Effect<RunHead | undefined, RunStoreError> =>
  Effect.catchTag(store.head(runId), "RunNotFound", () => Effect.succeed(undefined))

const startStored = Effect.fnUntraced(function* (work: Work, input: StoredStartInput) {
  const { runtime, store } = work
  const clock = yield* Clock.Clock
  const prompt = yield* decodePrompt(input.prompt)
  const previous = input.sessionId === undefined ? undefined : yield* lastOf(store, input.sessionId)
  const agent = yield* answering(runtime, {
    answeredBy: input.answeredBy,
    ...(previous === undefined ? {} : { previous: previous.state, under: previous.under })
  })
  return yield* create(
    work,
    startRun(runtime, clock, {
      ...input,
      prompt,
      agent,
      asks: true,
      ...(previous === undefined ? {} : { previous: previous.state, decided: previous.decisions })
    }),
    previous
  )
})

/** The state that the session's next run builds on, and the agent that it came about under. */
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
