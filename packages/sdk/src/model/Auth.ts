/**
 * Authentication of model requests: a key in a header, a bearer token, or none. For a login that is renewed, see `LoginTokens`.
 *
 * A key is read at each call, and white space around it is removed. It does not appear in a profile's text, a run's state or a span, nor,
 * if it has at least 6 characters, in an error. It is removed from all texts of runs; see `secrets` of `ModelClient`.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { credentialsIn, credentialsOf } from "./internal/knownSecrets.ts"
import { ModelError, NotAuthorized } from "./ModelError.ts"
import type { Auth } from "./ModelProfile.ts"

/** A secret, or an effect, such as a `Config`, that is run at each call. */
export type Secret = string | Redacted.Redacted<string> | Effect.Effect<Redacted.Redacted<string>, unknown>

/**
 * Sends a key in a header of its own, such as Anthropic's `x-api-key` (the default) or Azure's `api-key`.
 *
 * **Errors**
 *
 * Calls fail with a `ModelError`:
 *
 * - `NotAuthorized`: the key is blank, or its effect fails. The description is the option `missing`; default: `There is no key for this
 *   model: set one.`
 *
 * @category constructors
 * @since 0.1.0
 */
export const apiKey = (
  secret: Secret,
  options: { readonly header?: string; readonly missing?: string } = {}
): Auth => inHeader(secret, options.header ?? "x-api-key", "", options.missing)

/**
 * Sends a key or token as `Authorization: Bearer …`.
 *
 * **Errors**
 *
 * Calls fail with a `ModelError`:
 *
 * - `NotAuthorized`: the key is blank, or its effect fails. The description is the option `missing`; default: `There is no key for this
 *   model: set one.`
 *
 * @category constructors
 * @since 0.1.0
 */
export const bearer = (secret: Secret, options: { readonly missing?: string } = {}): Auth =>
  inHeader(secret, "authorization", "Bearer ", options.missing)

/**
 * No authentication, for servers that require none, such as most local ones.
 *
 * @category constructors
 * @since 0.1.0
 */
export const none: Auth = { canRefresh: false, headers: () => Effect.succeed({}) }

/**
 * The credentials in a client's authentication, in its headers, and in its address (password and query), for the `secrets` of a
 * `ModelClient`. A key that cannot be read is left out.
 *
 * @since 0.2.0
 */
export const secretsOf = ({
  auth,
  baseUrl = "",
  headers = {}
}: {
  readonly auth?: Auth | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly baseUrl?: string | undefined
}): Effect.Effect<ReadonlyArray<Redacted.Redacted<string>>> =>
  Effect.map(auth?.secrets ?? Effect.succeed([]), (own) => [
    ...own,
    ...[...credentialsIn(headers), ...credentialsOf(baseUrl)].map((value) => Redacted.make(value))
  ])

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
    secrets: Effect.orElseSucceed(
      Effect.map(key, (value) => [Redacted.make(value)]),
      () => []
    ),
    headers: () =>
      Effect.flatMap(key, (value) => {
        // A pasted key, or one read from a file, often ends in a line break.
        const trimmed = value.trim()
        return trimmed === "" ? absent : Effect.succeed({ [header]: Redacted.make(prefix + trimmed) })
      })
  }
}
