/**
 * The handles of the runs that are dispatched under one scope or by one conductor. They are closed together.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as Cancellation from "../../agent/Cancellation.ts"
import type { Suspension } from "../../agent/Cancellation.ts"

/** A handle that is closed with its group. */
export interface Grouped {
  /** Cancels or suspends the run, and waits until that is done. */
  readonly close: (reason: string) => Effect.Effect<void>
}

/**
 * The handles of one group, with two tokens that their stored runs share: `soon` asks the runs to suspend, `now` interrupts what still runs
 * after the drain time.
 */
export interface HandleGroup {
  readonly handles: Set<Grouped>
  readonly suspension: Suspension
}

export const makeGroup = (): HandleGroup => ({
  handles: new Set(),
  suspension: { soon: Cancellation.make(), now: Cancellation.make() }
})

/** How long the running operations of stored runs may take to finish when their scope closes. */
export const DrainTimeout = Context.Reference<Duration.Input>("@fermata/sdk/dispatch/DrainTimeout", {
  defaultValue: () => "2 seconds"
})

const groups = new WeakMap<Scope.Scope, HandleGroup>()

/** Returns the group for the scope in the context. Interrupts the caller if the scope is already closed. */
export const groupOfScope: Effect.Effect<HandleGroup, never, Scope.Scope> = Effect.gen(function* () {
  const scope = yield* Effect.scope
  let group = groups.get(scope)
  if (group === undefined) {
    group = makeGroup()
    groups.set(scope, group)
    const reason = "The scope that the run was dispatched under has closed."
    yield* Scope.addFinalizer(scope, closeAll(group, reason, yield* DrainTimeout))
  }
  // No run starts under a closed scope.
  return group.suspension.soon.reason() === undefined ? group : yield* Effect.interrupt
})

/** Closes all handles concurrently. Running operations of stored runs may finish within `drain`, and are interrupted then. */
export const closeAll = (group: HandleGroup, reason: string, drain: Duration.Input): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { handles, suspension } = group
    suspension.soon.cancel(reason)
    if (handles.size === 0) return Effect.void
    const stopNow = Effect.andThen(
      Effect.sleep(drain),
      Effect.sync(() => suspension.now.cancel(reason))
    )
    const closing = Effect.forEach([...handles], (one) => one.close(reason), {
      concurrency: "unbounded",
      discard: true
    })
    return Effect.raceFirst(closing, Effect.andThen(stopNow, Effect.never))
  })
