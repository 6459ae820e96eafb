/**
 * Going on with how something ends.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"

/** Goes on at once with what is known at once: without a step of the fiber, and with nothing kept while what follows waits. */
export const whenKnown = <A, E, R, B, E2, R2>(
  effect: Effect.Effect<A, E, R>,
  goOn: (exit: Exit.Exit<A, E>) => Effect.Effect<B, E2, R2>
): Effect.Effect<B, E2, R | R2> =>
  Exit.isExit(effect) ? goOn(effect as Exit.Exit<A, E>) : Effect.flatMap(Effect.exit(effect), goOn)
