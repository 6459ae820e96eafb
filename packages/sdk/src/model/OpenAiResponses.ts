/**
 * Model clients for OpenAI's `/responses` protocol, and for other servers that speak it.
 *
 * Every call sends the whole history. The provider stores responses only if `compatibility.store` is set.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import { makeClient } from "./internal/http/transport.ts"
import { responses } from "./internal/openai/responses.ts"
import { openAi, profileWith } from "./internal/profileOptions.ts"
import { ModelClient } from "./ModelClient.ts"
import type { ModelProfile } from "./ModelProfile.ts"
import type { Options } from "./OpenAiChat.ts"

export type { Options } from "./OpenAiChat.ts"

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
  profileWith({ ...openAi, of: "OpenAiResponses", protocol: "responses" }, options)

/**
 * Makes a client for a model that speaks the `/responses` protocol.
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` as {@link profile} does. Calls fail with `ModelError`; its reason is `NotAuthorized` if there is no key.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options: Options): Effect.Effect<ModelClient["Service"], never, HttpClient.HttpClient> =>
  makeClient(responses, profile(options))

/**
 * Provides a client for a model that speaks the `/responses` protocol as the `ModelClient`. See {@link make}.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options): Layer.Layer<ModelClient, never, HttpClient.HttpClient> =>
  Layer.effect(ModelClient, make(options))
