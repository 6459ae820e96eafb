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

/** Makes something of each, one after the other: at once, as long as what is made is known at once. */
export const eachWhenKnown = <A, B, E, R>(
  items: ReadonlyArray<A>,
  f: (item: A) => Effect.Effect<B, E, R>
): Effect.Effect<ReadonlyArray<B>, E, R> => {
  let made: Array<B> | undefined
  const add = (one: B): void => {
    // Most of the time it is one, and an empty array that grows makes room for many.
    if (made === undefined) made = [one]
    else made.push(one)
  }
  const from = (first: number): Effect.Effect<ReadonlyArray<B>, E, R> => {
    for (let index = first; index < items.length; index += 1) {
      const one = f(items[index]!)
      if (!Exit.isExit(one)) {
        return Effect.flatMap(one, (value) => {
          add(value)
          return from(index + 1)
        })
      }
      const exit = one as Exit.Exit<B, E>
      if (Exit.isFailure(exit)) return Exit.failCause(exit.cause)
      add(exit.value)
    }
    return Effect.succeed(made ?? [])
  }
  return from(0)
}
