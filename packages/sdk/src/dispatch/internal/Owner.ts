/**
 * The owner of the runs that are dispatched under one scope. It closes them together when the scope closes.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as Cancellation from "../../agent/Cancellation.ts"
import type { Suspension } from "../../agent/Cancellation.ts"

/** A handle that is closed with its owner. */
export interface Owned {
  /** Cancels or suspends the run, and waits until that is done. */
  readonly close: (reason: string) => Effect.Effect<void>
}

/**
 * The handles of one scope, with two tokens that all its stored runs share: `soon` asks them to suspend, `now` stops what still runs after
 * the drain time.
 */
export interface Owner {
  readonly owned: Set<Owned>
  readonly suspension: Suspension
}

export const makeOwner = (): Owner => ({
  owned: new Set(),
  suspension: { soon: Cancellation.make(), now: Cancellation.make() }
})

/** How long the running operations of stored runs may take to finish when their scope closes. */
export const DrainTimeout = Context.Reference<Duration.Input>("@fermata/sdk/dispatch/DrainTimeout", {
  defaultValue: () => "2 seconds"
})

const owners = new WeakMap<Scope.Scope, Owner>()

/** Returns the owner for the scope in the context. Interrupts the caller if the scope is already closed. */
export const ownerOfScope: Effect.Effect<Owner, never, Scope.Scope> = Effect.gen(function* () {
  const scope = yield* Effect.scope
  let owner = owners.get(scope)
  if (owner === undefined) {
    owner = makeOwner()
    owners.set(scope, owner)
    const reason = "The scope that the run was dispatched under has closed."
    yield* Scope.addFinalizer(scope, closeAll(owner, reason, yield* DrainTimeout))
  }
  // No run starts under a closed scope.
  return owner.suspension.soon.reason() === undefined ? owner : yield* Effect.interrupt
})

/** Closes all handles concurrently. Running operations of stored runs may finish within `drain`, and are interrupted then. */
export const closeAll = (owner: Owner, reason: string, drain: Duration.Input): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { owned, suspension } = owner
    suspension.soon.cancel(reason)
    if (owned.size === 0) return Effect.void
    const stopNow = Effect.andThen(
      Effect.sleep(drain),
      Effect.sync(() => suspension.now.cancel(reason))
    )
    const closing = Effect.forEach([...owned], (one) => one.close(reason), {
      concurrency: "unbounded",
      discard: true
    })
    return Effect.raceFirst(closing, Effect.andThen(stopNow, Effect.never))
  })
