/**
 * Models behind `/responses`: OpenAI's, and those of servers that speak the same protocol.
 *
 * Nothing is kept by the provider unless `compatibility.store` says so: the history goes along with every call.
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
 * The profile that these options make: OpenAI's address, the key as a bearer token, and the model's name as its own. Throws
 * `OptionsInvalid` for a key that there is not.
 *
 * @category constructors
 * @since 0.1.0
 */
export const profile = (options: Options): ModelProfile =>
  profileWith({ ...openAi, of: "OpenAiResponses", protocol: "responses" }, options)

/**
 * A client.
 *
 * **Errors**
 *
 * Calls fail with `ModelError`; a missing key is one with the reason `NotAuthorized`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options: Options): Effect.Effect<ModelClient["Service"], never, HttpClient.HttpClient> =>
  makeClient(responses, profile(options))

/**
 * The client as the `ModelClient`.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options): Layer.Layer<ModelClient, never, HttpClient.HttpClient> =>
  Layer.effect(ModelClient, make(options))
