/**
 * Model clients for Anthropic's `/v1/messages` protocol, and for other servers that speak it.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Auth from "./Auth.ts"
import { continuing } from "./internal/anthropic/continuing.ts"
import { messages } from "./internal/anthropic/messages.ts"
import { makeClient } from "./internal/http/transport.ts"
import { profileWith } from "./internal/profileOptions.ts"
import { ModelClient } from "./ModelClient.ts"
import type { ModelProfile } from "./ModelProfile.ts"

/** Options of {@link make}: a model profile in which only `model` is required. */
export interface Options extends Partial<Omit<ModelProfile, "protocol" | "model">> {
  /** The provider's name for the model. */
  readonly model: string
  /** Default: the environment variable `ANTHROPIC_API_KEY`, read at each call. Ignored if `auth` is given. */
  readonly apiKey?: Auth.Secret
}

/**
 * Returns the profile that {@link make} uses for these options. Defaults: Anthropic's address, the key in the `x-api-key` header, and
 * the model's name as the profile's name.
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an unknown option, for a `model`, `name` or `baseUrl` that is not a string, and for an invalid `rateLimit` or
 * `circuitBreaker`. Other values are not checked.
 *
 * @category constructors
 * @since 0.1.0
 */
export const profile = (options: Options): ModelProfile =>
  profileWith(
    {
      of: "AnthropicMessages",
      protocol: "messages",
      baseUrl: "https://api.anthropic.com/v1",
      keyName: "ANTHROPIC_API_KEY",
      auth: Auth.apiKey
    },
    options
  )

/**
 * Makes a client for a model that speaks the `/v1/messages` protocol.
 *
 * **Details**
 *
 * When the provider pauses while it runs its own tools (`pause_turn`), the client sends the content back so that the provider
 * continues, at most ten times. The caller gets one response, with the usage of all these requests. After an eleventh pause, the call
 * fails with `InvalidResponse`.
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` as {@link profile} does. Calls fail with `ModelError`; its reason is `NotAuthorized` if there is no key.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options: Options): Effect.Effect<ModelClient["Service"], never, HttpClient.HttpClient> =>
  Effect.map(makeClient(messages, profile(options)), continuing)

/**
 * Provides a client for a model that speaks the `/v1/messages` protocol as the `ModelClient`. See {@link make}.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options): Layer.Layer<ModelClient, never, HttpClient.HttpClient> =>
  Layer.effect(ModelClient, make(options))
