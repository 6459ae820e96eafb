/**
 * Runs an effect while variables of this process have other values.
 */
import * as Effect from "effect/Effect"

export const withVariables = <A, E, R>(
  variables: Readonly<Record<string, string>>,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const before = Object.keys(variables).map((name) => [name, process.env[name]] as const)
      Object.assign(process.env, variables)
      return before
    }),
    () => effect,
    (before) =>
      Effect.sync(() => {
        for (const [name, value] of before)
          if (value === undefined) delete process.env[name]
          else process.env[name] = value
      })
  )
