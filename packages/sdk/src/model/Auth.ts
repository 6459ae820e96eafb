/**
 * Ways to say who asks: a key, a bearer token, or nothing. For a login that has to be renewed see `LoginTokens`.
 *
 * A key is read when a call is made and never kept in plain text: it is not in a profile, a state, an error or a span.
 *
 * @since 0.1.0
 */
import type * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { ModelError, NotAuthorized } from "./ModelError.ts"
import type { Auth } from "./ModelProfile.ts"

/** A secret, or where to read one when a call is made. */
export type Secret = string | Redacted.Redacted<string> | Config.Config<Redacted.Redacted<string>>

/**
 * A key in a header of its own, such as Anthropic's `x-api-key` or Azure's `api-key`.
 *
 * **Errors**
 *
 * - `NotAuthorized`: there is no key; `missing` says what to set.
 *
 * @category constructors
 * @since 0.1.0
 */
export const apiKey = (
  secret: Secret,
  options: { readonly header?: string; readonly missing?: string } = {}
): Auth => inHeader(secret, options.header ?? "x-api-key", "", options.missing)

/**
 * A key or token as `Authorization: Bearer …`.
 *
 * **Errors**
 *
 * - `NotAuthorized`: there is no key; `missing` says what to set.
 *
 * @category constructors
 * @since 0.1.0
 */
export const bearer = (secret: Secret, options: { readonly missing?: string } = {}): Auth =>
  inHeader(secret, "authorization", "Bearer ", options.missing)

/**
 * Nobody has to say who asks, as with most servers on one's own machine.
 *
 * @category constructors
 * @since 0.1.0
 */
export const none: Auth = { canRefresh: false, headers: () => Effect.succeed({}) }

const inHeader = (
  secret: Secret,
  header: string,
  prefix: string,
  missing = "There is no key for this model: set one."
): Auth => {
  const absent = Effect.fail(new ModelError({ reason: new NotAuthorized({ description: missing }) }))
  const key: Effect.Effect<string, ModelError> =
    typeof secret === "string"
      ? Effect.succeed(secret)
      : Redacted.isRedacted(secret)
        ? Effect.sync(() => Redacted.value(secret))
        : Effect.catch(Effect.map(secret, Redacted.value), () => absent)
  return {
    canRefresh: false,
    headers: () =>
      Effect.flatMap(key, (value) => {
        // Keys that were pasted or read from a file end in a line break.
        const trimmed = value.trim()
        return trimmed === "" ? absent : Effect.succeed({ [header]: Redacted.make(prefix + trimmed) })
      })
  }
}
