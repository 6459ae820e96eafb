/**
 * Who owns the runs that are dispatched under a scope: all of them are closed together when it closes.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as Cancellation from "../../agent/Cancellation.ts"
import type { Suspension } from "../../agent/Cancellation.ts"

/** Something that can be closed with its owner. */
export interface Owned {
  /** Ends the run, or suspends it; returns when that is done. */
  readonly close: (reason: string) => Effect.Effect<void>
}

/** The runs of one scope, and how those that are stored are suspended. */
export interface Owner {
  readonly owned: Set<Owned>
  readonly suspension: Suspension
}

export const makeOwner = (): Owner => ({
  owned: new Set(),
  suspension: { soon: Cancellation.make(), now: Cancellation.make() }
})

/** How long what goes on in stored runs may take to come to an end by itself when their scope closes. */
export const DrainTimeout = Context.Reference<Duration.Input>("@fermata/sdk/dispatch/DrainTimeout", {
  defaultValue: () => "2 seconds"
})

const owners = new WeakMap<Scope.Scope, Owner>()

/** The owner of what is dispatched under the scope at hand. */
export const ownerOfScope: Effect.Effect<Owner, never, Scope.Scope> = Effect.gen(function* () {
  const scope = yield* Effect.scope
  let owner = owners.get(scope)
  if (owner === undefined) {
    owner = makeOwner()
    owners.set(scope, owner)
    const reason = "The scope that the run was dispatched under has closed."
    yield* Scope.addFinalizer(scope, closeAll(owner, reason, yield* DrainTimeout))
  }
  // Under a scope that has closed nothing begins.
  return owner.suspension.soon.reason() === undefined ? owner : yield* Effect.interrupt
})

/** Closes everything that is owned, all at once: what goes on in stored runs gets `drain` to come to an end by itself. */
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
