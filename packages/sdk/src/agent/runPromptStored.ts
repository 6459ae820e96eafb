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
import type { ApprovalPolicy } from "../domain/ApprovalPolicy.ts"
import type { Decision, DecisionInput } from "../domain/Decision.ts"
import { evolve } from "../domain/evolve.ts"
import type { RunId, SessionId } from "../domain/Id.ts"
import type { Limits } from "../domain/Limits.ts"
import { next } from "../domain/next.ts"
import { AgentNotFound, SessionBusy } from "../domain/RunError.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { RunState } from "../domain/RunState.ts"
import { isEnded } from "../domain/RunState.ts"
import { type RunHead, RunStore } from "../store/RunStore.ts"
import {
  RunExists,
  type LeaseLost,
  type RunBusy,
  type RunConflict,
  type RunNotFound,
  type RunStoreError
} from "../store/RunStoreError.ts"
import { drive } from "./AgentLoop.ts"
import { answersTo } from "./BoundAgent.ts"
import * as Cancellation from "./Cancellation.ts"
import { checkStored, decideStored } from "./decideStored.ts"
import { eventsOf } from "./internal/eventsOf.ts"
import { toResult } from "./internal/result.ts"
import type { Staged } from "./internal/staging.ts"
import { checkIds, continueRun, decodePrompt, startRun } from "./internal/staging.ts"
import { checkReadable, foldStored, storeJournal, underLease } from "./internal/stored.ts"
import type { Prompt, RunOptions, RunPromptError } from "./runPrompt.ts"
import type { RunResult } from "./RunResult.ts"
import type { Runtime } from "./Runtime.ts"

/** A new run; with a `sessionId`, the next one of that session. */
export interface StoredStartInput {
  readonly prompt: Prompt
  /** A name for the run, so that a start that is tried again does not start it twice. Default: made. */
  readonly runId?: RunId
  readonly sessionId?: SessionId
  /** Changes to the agent's limits. */
  readonly limits?: Partial<Limits>
  /** Replaces the agent's approval policy. */
  readonly policy?: ApprovalPolicy
}

/** A stored run to go on with. */
export interface StoredContinueInput {
  readonly runId: RunId
  /** Decisions to take first. Those that were taken already, by anybody, are found in the store. */
  readonly decisions?: ReadonlyArray<DecisionInput>
  /** What the user says to the run. Held: queued until its calls are settled. Ended: a new run in its session. */
  readonly message?: Prompt
  /** Larger budgets for a run that has used up its own. */
  readonly limits?: Partial<Limits>
}

/** What can go wrong around a stored run. Nothing that was acknowledged is lost by any of these. */
export type RunPromptStoredError =
  | RunPromptError
  | SessionBusy
  | RunNotFound
  | RunExists
  | RunBusy
  | RunConflict
  | LeaseLost
  | RunStoreError

const defaultTtl = "15 seconds"

/**
 * Runs a prompt until the run is held or over, with every step in the store.
 *
 * **Details**
 *
 * With a `prompt` a run is started, once for each id: a start that is tried again gets `RunExists`. Continuing a run that has ended
 * returns how it ended. Continuing one that still waits returns what it waits for.
 *
 * **Errors**
 *
 * - Those of `runPrompt`.
 * - `RunNotFound`, `RunExists` — check the id.
 * - `RunBusy` — another process works on it; the result will be in the store.
 * - `SessionBusy` — the session's last run has not ended.
 * - `RunConflict`, `LeaseLost` — another process took over; continue the run later.
 * - `RunStoreError` — the store failed; see its `reason`.
 *
 * @category running
 * @since 0.1.0
 */
export const runPromptStored: <Output>(
  runtime: Runtime<Output>,
  input: StoredStartInput | StoredContinueInput,
  options?: RunOptions
) => Effect.Effect<RunResult<Output>, RunPromptStoredError, RunStore> = Effect.fn("fermata.runPromptStored")(
  function* <Output>(
    runtime: Runtime<Output>,
    input: StoredStartInput | StoredContinueInput,
    options: RunOptions = {}
  ) {
    const store = yield* RunStore
    const token = Cancellation.make(options.cancellation ?? (yield* Cancellation.CancellationToken))
    if ("prompt" in input) yield* checkIds(input)
    const head = input.runId === undefined ? undefined : yield* findHead(store, input.runId)
    if (head !== undefined && !answersTo(runtime.bound.agent, head.agent)) {
      return yield* new AgentNotFound({ agent: head.agent, known: [runtime.bound.agent.name] })
    }
    if ("prompt" in input && head !== undefined) {
      return yield* new RunExists({ runId: head.runId, status: head.status })
    }
    const state =
      "prompt" in input
        ? yield* startStored(runtime, store, input, token, options)
        : yield* continueStored(runtime, store, input, token, options)
    return yield* toResult<Output>(runtime, state)
  }
)

type Store = RunStore["Service"]

const findHead = (store: Store, runId: RunId): Effect.Effect<RunHead | undefined, RunStoreError> =>
  Effect.catchTag(store.head(runId), "RunNotFound", () => Effect.succeed(undefined))

const startStored = Effect.fnUntraced(function* (
  runtime: Runtime<any>,
  store: Store,
  input: StoredStartInput,
  token: Cancellation.CancellationToken,
  options: RunOptions
) {
  const clock = yield* Clock.Clock
  const prompt = yield* decodePrompt(input.prompt)
  const previous = input.sessionId === undefined ? undefined : yield* lastOf(store, input.sessionId)
  const { sessionId, runId, limits, policy } = input
  return yield* create(
    runtime,
    store,
    startRun(runtime, clock, {
      prompt,
      asks: true,
      ...(previous === undefined ? {} : { previous }),
      ...(sessionId === undefined ? {} : { sessionId }),
      ...(runId === undefined ? {} : { runId }),
      ...(limits === undefined ? {} : { limits }),
      ...(policy === undefined ? {} : { policy })
    }),
    token,
    options
  )
})

/** The state that the session's next run builds on. */
const lastOf = Effect.fnUntraced(function* (store: Store, sessionId: SessionId) {
  // Clocks do not tell runs apart that began in the same millisecond or on machines whose clocks differ; what builds on what does.
  const newest = yield* store.list({ sessionId, limit: 20 })
  const continued = new Set(newest.map(({ parent }) => parent?.runId))
  const last = newest.find(({ runId }) => !continued.has(runId))
  if (last === undefined) return undefined
  if (last.status === "running" || last.status === "held") {
    return yield* new SessionBusy({ sessionId, runId: last.runId, status: last.status })
  }
  return yield* Effect.flatMap(store.load(last.runId), foldStored)
})

/** Commits the first event, which holds the user's message, before anything else happens. */
const create = Effect.fnUntraced(function* (
  runtime: Runtime<any>,
  store: Store,
  { state, events }: Staged,
  token: Cancellation.CancellationToken,
  options: RunOptions
) {
  const [event] = events
  if (event === undefined) return yield* Effect.die("A run starts with an event.")
  yield* checkReadable([event])
  const ttl = runtime.options.leaseTtl ?? defaultTtl
  const lease = yield* store.create({
    runId: state.runId,
    sessionId: state.sessionId,
    agent: state.agent.name,
    ...(state.parent === undefined ? {} : { parent: state.parent }),
    events: [event],
    status: state.status,
    owner: runtime.owner,
    ttl
  })
  const journal = storeJournal(store, lease, ttl)
  const { onUpdate } = options
  const work = drive({ runtime, journal, token, onUpdate, state, staged: [], committed: [event] })
  return yield* underLease(store, lease, ttl, token, work)
})

const continueStored = Effect.fnUntraced(function* (
  runtime: Runtime<any>,
  store: Store,
  input: StoredContinueInput,
  token: Cancellation.CancellationToken,
  options: RunOptions
): Effect.fn.Return<RunState, RunPromptStoredError> {
  const clock = yield* Clock.Clock
  const prompt = input.message === undefined ? undefined : yield* decodePrompt(input.message)
  for (const given of input.decisions ?? []) {
    yield* Effect.provideService(checkStored([runtime], given, input.runId), RunStore, store)
  }
  for (const given of input.decisions ?? []) {
    yield* Effect.provideService(decideStored([runtime], given, input.runId), RunStore, store)
  }

  const ttl = runtime.options.leaseTtl ?? defaultTtl
  const lease = yield* store.claim({ runId: input.runId, owner: runtime.owner, ttl })
  const { limits } = input
  const work = Effect.gen(function* (): Effect.fn.Return<RunState | Staged, RunPromptStoredError> {
    const stored = yield* store.load(input.runId)
    const taken = takeDecisions(yield* foldStored(stored), stored.decisions)
    const { state } = taken
    const ended = isEnded(state)
    if (ended && prompt === undefined && limits === undefined && state.status !== "error") return state
    const idle = next(state)._tag === "Hold" && state.status === "held"
    if (idle && prompt === undefined && limits === undefined && taken.events.length === 0) return state

    const continued = yield* continueRun(runtime, clock, {
      state,
      prompt,
      asks: true,
      ...(limits === undefined ? {} : { limits })
    })
    if (continued.state.runId !== state.runId) return continued
    const { onUpdate } = options
    const journal = storeJournal(store, lease, ttl)
    const staged = [...taken.events, ...continued.events]
    return yield* drive({ runtime, journal, token, onUpdate, state: continued.state, staged })
  })
  const end = yield* underLease(store, lease, ttl, token, work)
  return "events" in end ? yield* create(runtime, store, end, token, options) : end
})

/** The state with the decisions that the store has and the journal has not. */
const takeDecisions = (before: RunState, decisions: ReadonlyArray<Decision>): Staged => {
  let state = before
  const events: Array<RunEvent> = []
  for (const decision of decisions) {
    for (const event of eventsOf(state, decision)) {
      state = evolve(state, event)
      events.push(event)
    }
  }
  return { state, events }
}
