/**
 * Reads options from the `ConfigProvider`. A `Config` is an effect, so this module does not load `effect/Config`, which few programs need.
 */
import type * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Record from "effect/Record"

/** Reads the values of wrapped configs. */
export const readConfig = <A>(wrapped: Config.Wrap<A>): Effect.Effect<A, Config.ConfigError> =>
  (Effect.isEffect(wrapped)
    ? wrapped
    : Effect.all(
        Record.map(wrapped as Readonly<Record<string, Config.Wrap<unknown>>>, (config) => readConfig(config))
      )) as Effect.Effect<A, Config.ConfigError>
