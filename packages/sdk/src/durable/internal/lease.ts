/**
 * The lease under which this process drives a stored run: claimed, renewed during the drive, and released.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Cancellation from "../../agent/Cancellation.ts"
import type { RunStore } from "../../store/RunStore.ts"
import { RunStoreError } from "../../store/RunStoreError.ts"
import type { Lease, RunNotice } from "../../store/RunStorePort.ts"
import { subscribe } from "./notices.ts"

type Store = RunStore["Service"]

/**
 * A lease that this process owns. Its time counts from before the request to the store, so that it never seems to last longer than it
 * does.
 */
export interface OwnedLease {
  readonly lease: Lease
  readonly ttlMs: number
  readonly clock: Clock.Clock
  /** The time until which the lease is certainly in force, in monotonic nanoseconds. */
  goodUntil: bigint
  /** Called when there may be mail. */
  readonly listeners: Set<() => void>
  /** Whether the lease was released with the last events. */
  isParked: boolean
  /** Whether the store has refused to renew the lease. Nothing is written under it then, even if the store's clock is set back. */
  isLost: boolean
}

/** Takes a lease with `take`, and measures its time. */
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
    isLost: false,
    listeners: new Set()
  } satisfies OwnedLease as OwnedLease
})

const afterMs = (clock: Clock.Clock, ms: number): bigint =>
  clock.monotonicTimeNanosUnsafe() + BigInt(Math.ceil(Math.min(ms, 1e12) * 1e6))

export const renewLease = (store: Store, owned: OwnedLease) =>
  Effect.suspend(() => {
    const goodUntil = afterMs(owned.clock, owned.ttlMs)
    return Effect.map(store.renew(owned.lease, owned.ttlMs), (renewed) => {
      owned.goodUntil = goodUntil
      return renewed
    })
  })

/**
 * Renews a lease while `use` runs, and releases it afterwards. If the lease is lost, the token is cancelled, so that `use` stops before
 * its next effect; no later write is accepted.
 */
export const underLease = <A, E>(
  store: Store,
  owned: OwnedLease,
  token: Cancellation.CancellationToken,
  use: Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.gen(function* () {
    const notice = ({ cancelReason, hasMail }: Omit<RunNotice, "runId">) => {
      if (cancelReason !== undefined) token.cancel(cancelReason)
      if (hasMail === true) owned.listeners.forEach((listener) => listener())
    }
    const beat = Effect.gen(function* () {
      yield* Effect.sleep(owned.ttlMs / 3)
      notice(yield* renewLease(store, owned))
    }).pipe(
      // If the store fails, the lease is renewed again until it is lost.
      Effect.catchTag("RunStoreError", () => Effect.void),
      Effect.forever,
      Effect.catchTag("LeaseLost", () =>
        Effect.sync(() => {
          owned.isLost = true
          token.cancel("The lease was lost.")
        })
      )
    )
    yield* Effect.forkScoped(beat)
    const { clock, lease } = owned
    const subscribed = subscribe(store, clock, { runId: lease.runId, onNotice: notice })
    yield* Effect.acquireRelease(subscribed, (unsubscribe) => Effect.sync(unsubscribe))
    return yield* use
  }).pipe(
    Effect.scoped,
    Effect.onExit((exit) => {
      if (owned.isParked) return Effect.void
      const release = Effect.ignore(store.release(owned.lease))
      // The release would wait for the same locks once more. If it fails, the lease ends by its time.
      return isStoreBusy(exit) ? Effect.asVoid(Effect.forkDetach(release)) : release
    })
  )

const isStoreBusy = (exit: Exit.Exit<unknown, unknown>): boolean => {
  const error = Option.getOrUndefined(Exit.findErrorOption(exit))
  return error instanceof RunStoreError && error.reason._tag === "StoreBusy"
}
