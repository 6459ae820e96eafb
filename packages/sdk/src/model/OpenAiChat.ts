/**
 * Model clients for OpenAI's `/chat/completions` protocol, and for the many other servers that speak it.
 *
 * For another server, set `baseUrl`, `apiKey`, and in `compatibility` how it differs from OpenAI.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import type * as Auth from "./Auth.ts"
import { makeClient } from "./internal/http/transport.ts"
import { chat } from "./internal/openai/chat.ts"
import { openAi, profileWith } from "./internal/profileOptions.ts"
import { ModelClient } from "./ModelClient.ts"
import type { ModelProfile } from "./ModelProfile.ts"

/** Options of {@link make}: a model profile in which only `model` is required. */
export interface Options extends Partial<Omit<ModelProfile, "protocol" | "model">> {
  /** The provider's name for the model. */
  readonly model: string
  /** Default: the environment variable `OPENAI_API_KEY`, read at each call. Ignored if `auth` is given. */
  readonly apiKey?: Auth.Secret
}

/**
 * Returns the profile that {@link make} uses for these options. Defaults: OpenAI's address, the key as a bearer token, and the model's
 * name as the profile's name.
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
  profileWith({ ...openAi, of: "OpenAiChat", protocol: "chat" }, options)

/**
 * Makes a client for a model that speaks the `/chat/completions` protocol.
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` as {@link profile} does. Calls fail with `ModelError`; its reason is `NotAuthorized` if there is no key.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options: Options): Effect.Effect<ModelClient["Service"], never, HttpClient.HttpClient> =>
  makeClient(chat, profile(options))

/**
 * Provides a client for a model that speaks the `/chat/completions` protocol as the `ModelClient`. See {@link make}.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options): Layer.Layer<ModelClient, never, HttpClient.HttpClient> =>
  Layer.effect(ModelClient, make(options))
