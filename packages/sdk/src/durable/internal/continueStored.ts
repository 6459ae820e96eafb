/**
 * Drives stored runs: claims a run, loads it, drives it, and releases its lease.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Cancellation from "../../agent/Cancellation.ts"
import type { Suspension } from "../../agent/Cancellation.ts"
import { letTurn } from "../../agent/internal/eventLoop.ts"
import { observing } from "../../agent/internal/observing.ts"
import { subscribed } from "../../agent/internal/userCode.ts"
import { requireOpen, type Runtime } from "../../agent/Runtime.ts"
import { expiryWarnings } from "../../domain/decide.ts"
import type { DecisionInput } from "../../domain/Decision.ts"
import { evolve } from "../../domain/evolve.ts"
import type { RunId, Timestamp } from "../../domain/Id.ts"
import { withoutUndefined } from "../../domain/internal/untyped.ts"
import { isHold } from "../../domain/Interruption.ts"
import { next } from "../../domain/next.ts"
import type { SessionBusy } from "../../domain/RunError.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import { answerable, interruptions, isEnded, isQueued, type RunState } from "../../domain/RunState.ts"
import { decodePrompt } from "../../run/internal/decodePrompt.ts"
import { drive } from "../../run/internal/RunLoop.ts"
import { checkNextOnly, continueRun, type Staged } from "../../run/internal/staging.ts"
import type { Allotted, Dequeued, CallerOptions } from "../../run/internal/startOptions.ts"
import type { Prompt } from "../../run/Mail.ts"
import type { RunOptions } from "../../run/runInput.ts"
import type { RunPromptError } from "../../run/runPrompt.ts"
import { RunStore } from "../../store/RunStore.ts"
import type {
  LeaseLost,
  RunBusy,
  RunConflict,
  RunExists,
  RunNotFound,
  RunRemoved,
  RunStoreError
} from "../../store/RunStoreError.ts"
import { decideAllStored } from "../decideStored.ts"
import type { SuspensionOptions } from "../storedInput.ts"
import {
  type Checkpointing,
  CheckpointEvery,
  checkpointOf,
  type CheckpointedState,
  savedAs
} from "./checkpoints.ts"
import { ownLease, underLease } from "./lease.ts"
import { broadcasting } from "./LiveText.ts"
import { loadRun } from "./loadRun.ts"
import { remember } from "./remembered.ts"
import { requireSoundDecisions } from "./soundDecisions.ts"
import { checkReadable, recordExpiries, storeJournal } from "./storeJournal.ts"
import { storeParts } from "./storeParts.ts"

type Store = RunStore["Service"]

/** Why a stored run was not driven until it was held or had ended. Acknowledged inputs and committed events are kept. */
export type WorkError =
  | RunPromptError
  | SessionBusy
  | RunNotFound
  | RunExists
  | RunRemoved
  | RunBusy
  | RunConflict
  | LeaseLost
  | RunStoreError

/** The runtime and the store that drive a run, with the tokens that cancel and suspend it. */
export interface Work extends RunOptions {
  readonly runtime: Runtime
  readonly store: Store
  readonly token: Cancellation.CancellationToken
  readonly suspension?: Suspension | undefined
}

/** Reads the option `suspension`, also under its earlier name. */
export const suspensionOf = ({ leaving, suspension = leaving }: SuspensionOptions): Suspension | undefined =>
  suspension

const ttlOf = (runtime: Runtime) => runtime.options.leaseTtl ?? "15 seconds"

/**
 * Commits the first event, which contains the user's message, before anything else happens; then drives the run. The hold of a queued run
 * is in the same commit, so that no worker finds the run without it. `previous` is the state of the run before it in the session.
 */
export const create = Effect.fnUntraced(function* (
  { onUpdate, runtime, store, suspension, token }: Work,
  { state, events }: Staged,
  previous: (CheckpointedState & { readonly createdAt: Timestamp }) | undefined
) {
  yield* requireOpen(runtime)
  const clock = yield* Clock.Clock
  if (!Arr.isReadonlyArrayNonEmpty(events)) return yield* Effect.die("A run starts with an event.")
  yield* checkReadable(events)
  const every = yield* CheckpointEvery
  const checkpoint = previous === undefined ? undefined : checkpointOf(previous, every)
  const ttl = ttlOf(runtime)
  const from = clock.currentTimeMillisUnsafe()
  const owned = yield* ownLease(
    ttl,
    store.create({
      runId: state.runId,
      sessionId: state.sessionId,
      agent: runtime.bound.agent.name,
      ...(state.parent === undefined || previous === undefined
        ? {}
        : { parent: { ...state.parent, createdAt: previous.createdAt } }),
      ...(checkpoint === undefined ? {} : { checkpoint }),
      events,
      status: state.status,
      owner: runtime.owner,
      ttl,
      unattended: suspension?.soon.reason() !== undefined
    })
  )
  const to = clock.currentTimeMillisUnsafe()
  const checkpointing: Checkpointing = {
    every,
    saved:
      previous === undefined || checkpoint === undefined
        ? previous?.saved
        : savedAs(previous.state.runId, checkpoint)
  }
  const journal = storeJournal(store, owned, checkpointing, runtime.memory)
  const observer = yield* broadcasting(store, state.runId, yield* observing(runtime, onUpdate))
  const options = { clock, runtime, journal, token, suspension, onUpdate: observer }
  const driven = isQueued(state)
    ? Effect.sync(() => publishQueued(state, events, observer))
    : drive({ ...options, state, staged: [], committed: events })
  const end = yield* underLease(store, owned, token, driven)
  remember(store, { state: end, saved: checkpointing.saved }, { from, to })
  return end
})

/** Publishes the events of a run that waits for its first slot. */
const publishQueued = (
  state: RunState,
  events: ReadonlyArray<RunEvent>,
  publish: RunOptions["onUpdate"]
): RunState => {
  for (const [index, event] of events.entries()) {
    publish?.({ _tag: "event", runId: state.runId, revision: index + 1, event })
  }
  return state
}

/** Input that continues a stored run. */
export interface Continuation extends CallerOptions, Allotted, Dequeued {
  readonly runId: RunId
  readonly decisions?: ReadonlyArray<DecisionInput>
  readonly message?: Prompt
  readonly answeredBy?: string
}

/** Claims a run and drives it until it is held or has ended. A run that can only wait does not change. */
export const continueStored = Effect.fnUntraced(function* (
  work: Work,
  continuation: Continuation
): Effect.fn.Return<RunState, WorkError> {
  const { answeredBy, context, decisions = [], limits, message, policy, runId } = continuation
  const { "~allotted": allotted, "~queued": dequeued } = continuation
  const { onUpdate, runtime, store, suspension, token } = work
  yield* requireOpen(runtime)
  yield* letTurn
  const clock = yield* Clock.Clock
  const prompt =
    message === undefined
      ? undefined
      : yield* storeParts(store, runtime.scrubber, yield* decodePrompt(message))
  yield* Effect.provideService(decideAllStored([runtime], decisions, runId), RunStore, store)

  const ttl = ttlOf(runtime)
  const owned = yield* ownLease(ttl, store.claim({ runId, owner: runtime.owner, ttl }))
  const checkpointing: Checkpointing = { every: yield* CheckpointEvery, saved: "unknown" }
  const journal = storeJournal(store, owned, checkpointing, runtime.memory)
  let previous: Parameters<typeof create>[2]
  const driven = Effect.gen(function* (): Effect.fn.Return<RunState | Staged, WorkError> {
    const stored = yield* loadRun(store, runId)
    const { saved } = stored
    const before = stored.state
    let state = before
    checkpointing.saved = saved
    const decided = yield* recordExpiries(store, stored.decisions)
    yield* requireSoundDecisions(reopened(before), decided)
    yield* checkNextOnly(before, { answeredBy, context, prompt })
    const hasMail = stored.messages.length > 0
    const isGiven =
      limits !== undefined || policy !== undefined || context !== undefined || allotted !== undefined
    const isStarted = isQueued(state) && dequeued !== "keep"
    const hasInput = prompt !== undefined || isGiven || isStarted || (hasMail && !isEnded(state))
    if (isEnded(state) && !hasInput && state.status !== "error") return state
    // Another conductor has started the run, which has failed: it is not tried again here.
    if (state.status === "error" && dequeued === "start") return state
    if (next(state)._tag === "Hold" && state.status === "held" && !hasInput && decided.length === 0) {
      const cancelled = (yield* journal.renewLease).cancelReason
      if (cancelled !== undefined) token.cancel(cancelled)
      else {
        const observer = yield* observing(runtime, onUpdate, state)
        state = yield* announceExpiries(work, journal, state, clock.currentTimeMillisUnsafe(), observer)
        // This program's approval callback may not have been called with these requests.
        if (!isCallbackAsked(runtime, state) && !(yield* lacksRequest(store, state))) return state
      }
    }

    const continued = yield* continueRun(runtime, clock, {
      state,
      prompt,
      answeredBy,
      asks: true,
      decided,
      // Messages to a sub-agent wait for that sub-agent, except a cancellation.
      hasMail: stored.messages.some(({ ends }) => ends === true),
      ...withoutUndefined({ context, limits, policy, "~allotted": allotted, "~queued": dequeued })
    })
    if (continued.state.runId !== state.runId) {
      const { createdAt } = stored.head
      previous = { state, saved: state === before ? saved : "unknown", createdAt }
      return continued
    }
    const staged = continued.events
    const observer = yield* broadcasting(store, runId, yield* observing(runtime, onUpdate, state))
    const { missing } = continued
    const options = { clock, runtime, journal, token, suspension, onUpdate: observer, hasMail, missing }
    const end = yield* drive({ ...options, state: continued.state, staged })
    const { createdAt } = stored.head
    remember(store, { state: end, saved: checkpointing.saved }, { from: createdAt, to: createdAt })
    return end
  })
  const end = yield* underLease(store, owned, token, driven)
  return "events" in end ? yield* create(work, end, previous) : end
})

/**
 * Whether the approval callback is called with one of the run's open requests when the run continues. Timers and external calls are no
 * question to it, and it is not asked about the requests of stopped runs.
 */
export const isCallbackAsked = ({ options }: Runtime, state: RunState): boolean =>
  options.approvalCallback !== undefined && answerable(state).some((request) => !isHold(request))

/** The state in which the decisions on a failed run's requests are acted on. */
const reopened = (state: RunState): RunState =>
  state.status === "error" ? evolve(state, { _tag: "run.resumed", at: state.startedAt }) : state

/**
 * Whether the inbox lacks an open request of the run: earlier versions closed the requests of a failed run, and did not open them when
 * it was resumed. Resuming it opens them.
 */
const lacksRequest = Effect.fnUntraced(function* (
  store: Store,
  state: RunState
): Effect.fn.Return<boolean, RunStoreError> {
  const open = interruptions(state)
  if (open.length === 0 || open.length > pageSize) return false
  const shown = yield* store.pending({ runId: state.runId, limit: pageSize })
  const ids = new Set(shown.map(({ request }) => request.requestId))
  for (const { requestId } of open.filter(({ requestId }) => !ids.has(requestId))) {
    // A request that was decided meanwhile is not in the inbox.
    const isDecided = yield* Effect.match(store.request(requestId), {
      onSuccess: ({ decision }) => decision !== undefined,
      onFailure: () => false
    })
    if (!isDecided) return true
  }
  return false
})

/** The maximum page size of a store. */
const pageSize = 1000

/** Records, once per request, that it will expire soon. The lease ensures that one process does, which publishes it after the commit. */
const announceExpiries = Effect.fnUntraced(function* (
  { runtime }: Work,
  journal: ReturnType<typeof storeJournal>,
  before: RunState,
  at: number,
  publish: RunOptions["onUpdate"]
) {
  const events = expiryWarnings(before, at)
  if (!Arr.isReadonlyArrayNonEmpty(events)) return before
  const after = events.reduce((state, event) => evolve(state, event), before)
  yield* journal.append(events, after)
  if (publish === undefined) return after
  const { runId } = before
  const called = { code: "onUpdate", runId, agent: runtime.agent.name }
  const context = yield* Effect.context<never>()
  const subscriber = subscribed(
    runtime,
    () => called,
    () => context,
    publish
  )
  for (const [index, event] of events.entries()) {
    subscriber({ _tag: "event", runId, revision: before.revision + index + 1, event })
  }
  return after
})
