/**
 * A run in a store while this process works on it: the lease, its heartbeat, and the journal under it.
 */
import type * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import type * as Cancellation from "../../agent/Cancellation.ts"
import type { Decision, DecisionInput } from "../../domain/Decision.ts"
import { evolveAll } from "../../domain/evolve.ts"
import type { Revision, RunId } from "../../domain/Id.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"
import { areReadable } from "../../domain/RunStateCodec.ts"
import { grantsUsed } from "../../run/internal/grants.ts"
import type { Journal } from "../../run/internal/Journal.ts"
import type { RunStore } from "../../store/RunStore.ts"
import { RunStoreError, StoreFault, StoreUnreadable } from "../../store/RunStoreError.ts"
import type { Lease, RunHead, StoredRun } from "../../store/RunStorePort.ts"
import { type Checkpointing, checkpointOf, savedAs } from "./checkpoints.ts"
import { requireFitting } from "./soundDecisions.ts"

type Store = RunStore["Service"]

/** What could not be read back is not written: a run that nobody can load is a pending approval that nobody can act on. */
export const checkReadable = (events: ReadonlyArray<RunEvent>): Effect.Effect<void, RunStoreError> =>
  Effect.suspend(() => {
    const detail = whyUnreadable(events)
    if (detail === undefined) return Effect.void
    return Effect.fail(
      new RunStoreError({ operation: "append", reason: new StoreFault({ detail, retryable: false }) })
    )
  })

/** The same while the run is being driven, where it is a defect of the run: one that would be met again and again. */
const requireReadable = (events: ReadonlyArray<RunEvent>): Effect.Effect<void> =>
  Effect.suspend(() => {
    const detail = whyUnreadable(events)
    return detail === undefined ? Effect.void : Effect.die(new TypeError(detail))
  })

const whyUnreadable = (events: ReadonlyArray<RunEvent>): string | undefined => {
  if (areReadable(events)) return undefined
  const unreadable = events.find((event) => !areReadable([event]))?._tag ?? "event"
  return `what a caller or a model gave for ${unreadable} is not of its type, and was not written`
}

/** A lease that this process owns. Its validity counts from before the store was asked, so that it never seems to last longer than it does. */
export interface OwnedLease {
  readonly lease: Lease
  readonly ttlMs: number
  readonly clock: Clock.Clock
  /** Monotonic nanoseconds. */
  goodUntil: bigint
  /** Called when there may be mail. */
  readonly listeners: Set<() => void>
  /** Whether the lease was given back with the last events. */
  isParked: boolean
  /** Listens to what others do to the run. */
  watcher?: Fiber.Fiber<void>
}

/** Takes a lease with `take`, and counts its validity. */
export const ownLease = Effect.fnUntraced(function* <E>(ttl: Duration.Input, take: Effect.Effect<Lease, E>) {
  const clock = yield* Clock.Clock
  const ttlMs = Duration.toMillis(Duration.fromInputUnsafe(ttl))
  const goodUntil = afterMs(clock, ttlMs)
  return {
    lease: yield* take,
    ttlMs,
    clock,
    goodUntil,
    isParked: false,
    listeners: new Set()
  } satisfies OwnedLease as OwnedLease
})

const afterMs = (clock: Clock.Clock, ms: number): bigint =>
  clock.monotonicTimeNanosUnsafe() + BigInt(Math.ceil(Math.min(ms, 1e12) * 1e6))

const renewLease = (store: Store, owned: OwnedLease) =>
  Effect.suspend(() => {
    const goodUntil = afterMs(owned.clock, owned.ttlMs)
    return Effect.map(store.renew(owned.lease, owned.ttlMs), (renewed) => {
      owned.goodUntil = goodUntil
      return renewed
    })
  })

/** The journal of a run whose lease this process owns. A checkpoint is written when the run waits: its end is left to whoever goes on from it. */
export const storeJournal = (store: Store, owned: OwnedLease, checkpointing: Checkpointing): Journal => {
  const { lease, listeners } = owned
  let isBroken = false
  /** A defect of the store is not one of the run. */
  const asked = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.catchDefect(effect, (defect) => {
      isBroken = true
      return Effect.die(defect)
    })
  const notifyListeners = () => Effect.sync(() => listeners.forEach((listener) => listener()))
  const options = (events: ReadonlyArray<RunEvent>, state: RunState) => ({
    lease,
    expected: (state.revision - events.length) as Revision,
    events: events as Arr.NonEmptyReadonlyArray<RunEvent>,
    status: state.status
  })
  return {
    append: (events, state) =>
      Effect.andThen(
        requireReadable(events),
        Effect.suspend(() => {
          const grants = grantsUsed(state, events)
          const given = options(events, state)
          return asked(store.append(grants === undefined ? given : { ...given, grants }))
        })
      ),
    park: (events, state) =>
      Effect.andThen(
        requireReadable(events),
        Effect.suspend(() => {
          const { every, saved } = checkpointing
          const checkpoint = state.status === "held" ? checkpointOf({ state, saved }, every) : undefined
          const given = options(events, state)
          return Effect.map(
            asked(store.park(checkpoint === undefined ? given : { ...given, checkpoint })),
            ({ parked }) => {
              owned.isParked = parked
              if (parked && checkpoint !== undefined) checkpointing.saved = savedAs(state.runId, checkpoint)
              return parked
            }
          )
        })
      ),
    mail: () =>
      asked(
        Effect.all({
          decisions: Effect.flatMap(store.decisions(lease.runId), (decisions) =>
            recordExpiries(store, decisions)
          ),
          messages: store.messages(lease.runId)
        })
      ),
    requireFitting,
    decide: (decision) =>
      Effect.catch(asked(store.decide(decision)), (refused) =>
        refused._tag === "RunStoreError" ? Effect.fail(refused) : Effect.void
      ),
    onMail: (listener) => {
      listeners.add(listener)
      return () => {
        listeners.delete(listener)
      }
    },
    watch: Effect.suspend(() =>
      owned.watcher === undefined
        ? Effect.map(
            Effect.forkDetach(Stream.runForEach(store.changes, notifyListeners), { startImmediately: true }),
            (fiber) => {
              owned.watcher = fiber
            }
          )
        : Effect.void
    ),
    pulse: asked(renewLease(store, owned)),
    isStale: () => owned.clock.monotonicTimeNanosUnsafe() >= owned.goodUntil,
    isBroken: () => isBroken,
    isShared: true
  }
}

/**
 * Puts on record in the store what time has decided, before the run acts on it, and returns the decisions that count. A process whose
 * clock is behind may have decided otherwise meanwhile, and cannot afterwards.
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
 * Makes the store look at a request that expired: a decision about one is refused, and the decision of time recorded. This one answers no
 * request of its kind, so that it is never recorded itself.
 */
const recordExpiry = (
  store: Store,
  expiry: Decision
): Effect.Effect<ReadonlyArray<Decision>, RunStoreError> => {
  const { requestId } = expiry
  const by = "the run that waits"
  const unfit: DecisionInput =
    expiry._tag === "fail" ? { _tag: "answer", requestId, by, answer: "" } : { _tag: "fail", requestId, by }
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

/**
 * Keeps a lease alive while `use` runs, and gives it back afterwards. A lease that is lost stops `use` before its next effect:
 * the token is cancelled, and nothing more can be written.
 */
export const underLease = <A, E>(
  store: Store,
  owned: OwnedLease,
  token: Cancellation.CancellationToken,
  use: Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.gen(function* () {
    const beat = Effect.gen(function* () {
      yield* Effect.sleep(owned.ttlMs / 3)
      const { cancelReason, hasMail } = yield* renewLease(store, owned)
      if (cancelReason !== undefined) token.cancel(cancelReason)
      if (hasMail === true) owned.listeners.forEach((listener) => listener())
    }).pipe(
      // A store that fails for a moment is tried again until the lease itself is gone.
      Effect.catchTag("RunStoreError", () => Effect.void),
      Effect.forever,
      Effect.catchTag("LeaseLost", () => Effect.sync(() => token.cancel("The lease was lost.")))
    )
    yield* Effect.forkScoped(beat)
    return yield* use
  }).pipe(
    Effect.scoped,
    Effect.ensuring(
      Effect.suspend(() => (owned.watcher === undefined ? Effect.void : Fiber.interrupt(owned.watcher)))
    ),
    Effect.ensuring(
      Effect.suspend(() => (owned.isParked ? Effect.void : Effect.ignore(store.release(owned.lease))))
    )
  )

/** The state of a stored run. */
export const foldStored = ({ events, head }: StoredRun): Effect.Effect<RunState, RunStoreError> =>
  Effect.suspend(() => {
    let state: RunState | undefined
    try {
      state = evolveAll(undefined, events)
    } catch {
      // Told below: a journal that cannot be folded is as unreadable as one that cannot be parsed.
    }
    if (state === undefined) return Effect.fail(unreadable(head.runId, "does not add up to a run"))
    return isOf(state, head)
      ? Effect.succeed(state)
      : Effect.fail(unreadable(head.runId, "is of another run, session or status than its entry says"))
  })

/** Whether a state is that of the run with this head. One that was given the head of another run must not be acted on as that run. */
export const isOf = (state: RunState, head: RunHead): boolean =>
  state.runId === head.runId &&
  state.revision === head.revision &&
  state.status === head.status &&
  state.parent?.runId === head.parent?.runId &&
  state.parent?.revision === head.parent?.revision &&
  // Runs that made a session fork, before that was refused, were given sessions of their own.
  (state.sessionId === head.sessionId || head.sessionId.startsWith(`${state.sessionId}.fork.`))

const unreadable = (runId: RunId, what: string): RunStoreError =>
  new RunStoreError({
    operation: "load",
    reason: new StoreUnreadable({
      detail: `the journal of ${runId} ${what}: restore the store from a backup, or remove the run.`
    })
  })
