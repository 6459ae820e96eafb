/**
 * The journal of a stored run, written under the lease that this process owns.
 */
import type * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { Decision, DecisionInput } from "../../domain/Decision.ts"
import type { Revision } from "../../domain/Id.ts"
import { callIdOf } from "../../domain/Interruption.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"
import { areReadable } from "../../domain/RunStateCodec.ts"
import type { MemoryOperations } from "../../memory/Memory.ts"
import { Contents } from "../../run/internal/Contents.ts"
import { grantsUsed } from "../../run/internal/grants.ts"
import type { Journal, News } from "../../run/internal/Journal.ts"
import type { RunStore } from "../../store/RunStore.ts"
import { LeaseLost, RunStoreError, StoreFault } from "../../store/RunStoreError.ts"
import { type Checkpointing, checkpointOf, savedAs } from "./checkpoints.ts"
import { type OwnedLease, renewLease } from "./lease.ts"
import { referencesOf } from "./references.ts"
import { requireFitting } from "./soundDecisions.ts"
import { WriteThrough } from "./WriteThrough.ts"

type Store = RunStore["Service"]

/** Refuses events that could not be read back: their run could not be loaded, and its approvals would be lost. */
export const checkReadable = (events: ReadonlyArray<RunEvent>): Effect.Effect<void, RunStoreError> =>
  Effect.suspend(() => {
    const detail = whyUnreadable(events)
    if (detail === undefined) return Effect.void
    return Effect.fail(
      new RunStoreError({ operation: "append", reason: new StoreFault({ detail, retryable: false }) })
    )
  })

/** Like `checkReadable` during a drive: such events are then a defect of the run, which would occur again at each attempt. */
const requireReadable = (events: ReadonlyArray<RunEvent>): Effect.Effect<void> =>
  Effect.suspend(() => {
    const detail = whyUnreadable(events)
    return detail === undefined ? Effect.void : Effect.die(new TypeError(detail))
  })

const whyUnreadable = (events: ReadonlyArray<RunEvent>): string | undefined => {
  if (areReadable(events)) return undefined
  const unreadable = events.find((event) => !areReadable([event]))?._tag ?? "event"
  return `the data from a caller or a model for ${unreadable} is not of its type, and was not written`
}

/**
 * The journal of a run whose lease this process owns. A held run's checkpoint is written when it parks; the checkpoint of an ended run
 * is written by the session's next run.
 */
export const storeJournal = (
  store: Store,
  owned: OwnedLease,
  checkpointing: Checkpointing,
  memory: MemoryOperations | undefined
): Journal => {
  const { lease, listeners } = owned
  const contents = store.blobs === undefined ? undefined : new Contents(store.blobs)
  const writing = memory === undefined ? undefined : new WriteThrough(memory, store.memory)
  let isBroken = false
  /** Marks the journal as broken if the store dies: a defect of the store is not a defect of the run. */
  const guarded = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.catchDefect(effect, (defect) => {
      isBroken = true
      return Effect.die(defect)
    })
  /** Refuses to write without a lease, and events that could not be read back. */
  const checked = (events: ReadonlyArray<RunEvent>): Effect.Effect<void, LeaseLost> =>
    Effect.suspend(() =>
      owned.isLost
        ? Effect.fail(new LeaseLost({ runId: lease.runId, owner: lease.owner }))
        : requireReadable(events)
    )
  /** Stores the contents that events refer to. A content of events that are staged later may be among them. */
  const stored = (events: ReadonlyArray<RunEvent>): Effect.Effect<void, LeaseLost | RunStoreError> =>
    contents === undefined ? checked(events) : Effect.andThen(checked(events), guarded(contents.flush))
  const ready = (
    events: ReadonlyArray<RunEvent>,
    state: RunState
  ): Effect.Effect<void, LeaseLost | RunStoreError> =>
    writing === undefined || writing.isReady
      ? stored(events)
      : Effect.andThen(stored(events), writing.catchUp(state))
  const options = (events: ReadonlyArray<RunEvent>, state: RunState) => ({
    lease,
    expected: (state.revision - events.length) as Revision,
    events: events as Arr.NonEmptyReadonlyArray<RunEvent>,
    status: state.status,
    ...(writing === undefined ? {} : { memory: writing.rows(state) })
  })
  /** Writes events with their rows of memory. If the store fails, it writes them without: memory must not keep a run from its commits. */
  const writingMemory = <O extends { readonly memory?: ReadonlyArray<unknown> }, A, E>(
    given: O,
    state: RunState,
    write: (given: O) => Effect.Effect<A, E>
  ): Effect.Effect<A, E> =>
    writing === undefined || given.memory === undefined || given.memory.length === 0
      ? guarded(write(given))
      : Effect.catch(guarded(write(given)), (error) =>
          error instanceof RunStoreError && error.reason._tag !== "OutcomeUnknown"
            ? Effect.tap(guarded(write({ ...given, memory: [] })), () => writing.stop(state, error))
            : Effect.fail(error)
        )
  return {
    contents,
    get catchUp() {
      return writing === undefined || writing.isReady
        ? undefined
        : (state: RunState) => writing.catchUp(state)
    },
    references:
      store.blobs === undefined ? undefined : guarded(referencesOf(store, store.blobs, lease.runId)),
    append: (events, state) =>
      Effect.andThen(
        ready(events, state),
        Effect.suspend(() => {
          const grants = grantsUsed(state, events)
          const given = options(events, state)
          const appending = writingMemory(
            grants === undefined ? given : { ...given, grants },
            state,
            store.append
          )
          return writing === undefined
            ? appending
            : Effect.tap(appending, ({ revoked }) =>
                revoked === undefined ? writing.committed(state) : Effect.void
              )
        })
      ),
    park: (events, state) =>
      Effect.andThen(
        ready(events, state),
        Effect.suspend(() => {
          const { every, saved } = checkpointing
          const checkpoint = state.status === "held" ? checkpointOf({ state, saved }, every) : undefined
          const given = options(events, state)
          const parking = Effect.map(
            writingMemory(checkpoint === undefined ? given : { ...given, checkpoint }, state, store.park),
            ({ parked }) => {
              owned.isParked = parked
              if (parked && checkpoint !== undefined) checkpointing.saved = savedAs(state.runId, checkpoint)
              return parked
            }
          )
          return writing === undefined
            ? parking
            : Effect.tap(parking, (parked) => (parked ? writing.committed(state) : Effect.void))
        })
      ),
    mail: () =>
      guarded(
        Effect.all({
          decisions: Effect.flatMap(store.decisions(lease.runId), (decisions) =>
            recordExpiries(store, decisions)
          ),
          messages: store.messages(lease.runId)
        })
      ),
    requireFitting,
    decide: (decision) =>
      Effect.catch(guarded(store.decide(decision)), (refused) =>
        refused._tag === "RunStoreError" ? Effect.fail(refused) : Effect.void
      ),
    isTokenTaken: (token, callId) =>
      Effect.map(guarded(store.withToken(token)), (named) =>
        named.some(({ request }) => callIdOf(request) !== callId)
      ),
    onMail: (listener) => {
      listeners.add(listener)
      return () => {
        listeners.delete(listener)
      }
    },
    news:
      store.notices === undefined
        ? Effect.succeed({ hasMail: true })
        : Effect.orElseSucceed(
            Effect.map(store.notices([lease.runId]), ([notice]): News => notice ?? {}),
            () => ({})
          ),
    renewLease: guarded(renewLease(store, owned)),
    isStale: () => owned.clock.monotonicTimeNanosUnsafe() >= owned.goodUntil,
    isBroken: () => isBroken,
    isShared: true
  }
}

/**
 * Records decisions by expiry in the store before the run acts on them, and returns the decisions that count. A process whose clock is
 * behind may have recorded another decision before; it cannot do so afterwards.
 */
export const recordExpiries = (
  store: Store,
  decisions: ReadonlyArray<Decision>
): Effect.Effect<ReadonlyArray<Decision>, RunStoreError> =>
  decisions.every(({ by }) => by !== "expiry")
    ? Effect.succeed(decisions)
    : Effect.map(
        Effect.forEach(decisions, (decision) =>
          decision.by === "expiry" ? recordExpiry(store, decision) : Effect.succeed([decision])
        ),
        (counting) => counting.flat()
      )

/**
 * Makes the store check an expired request: the store refuses any decision on it and records the decision by expiry. The decision sent
 * here does not fit the request, so that it is never recorded.
 */
const recordExpiry = (
  store: Store,
  expiry: Decision
): Effect.Effect<ReadonlyArray<Decision>, RunStoreError> => {
  const { requestId } = expiry
  const by = "the run that waits"
  const unfit: DecisionInput =
    expiry._tag === "deny" ? { _tag: "fail", requestId, by } : { _tag: "answer", requestId, by, answer: "" }
  return Effect.matchEffect(store.decide(unfit), {
    onSuccess: (recorded) => Effect.succeed([recorded.decision]),
    onFailure: (refused) => {
      switch (refused._tag) {
        case "RunStoreError":
          return Effect.fail(refused)
        case "AlreadyDecided":
          return Effect.succeed([refused.decision])
        case "RequestSuperseded":
          return Effect.succeed([])
        default:
          return Effect.succeed([expiry])
      }
    }
  })
}
