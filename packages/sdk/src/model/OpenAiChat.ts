/**
 * Models behind `/chat/completions`: OpenAI's, and those of the many servers that speak the same protocol.
 *
 * For another server give `baseUrl`, its key, and in `compatibility` what it does differently.
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

/** What is asked, and where. Only `model` has to be said. */
export interface Options extends Partial<Omit<ModelProfile, "protocol" | "model">> {
  /** The provider's name for the model. */
  readonly model: string
  /** Default: the environment's `OPENAI_API_KEY`, read at each call. Ignored where `auth` is given. */
  readonly apiKey?: Auth.Secret
}

/**
 * The profile that these options make: OpenAI's address, the key as a bearer token, and the model's name as its own. Throws
 * `OptionsInvalid` for a key that there is not.
 *
 * @category constructors
 * @since 0.1.0
 */
export const profile = (options: Options): ModelProfile =>
  profileWith({ ...openAi, of: "OpenAiChat", protocol: "chat" }, options)

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
  makeClient(chat, profile(options))

/**
 * The client as the `ModelClient`.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options): Layer.Layer<ModelClient, never, HttpClient.HttpClient> =>
  Layer.effect(ModelClient, make(options))
