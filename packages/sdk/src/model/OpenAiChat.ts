/**
 * Models behind `/chat/completions`: OpenAI's, and those of the many servers that speak the same protocol.
 *
 * For another server give `baseUrl`, its key, and in `compatibility` what it does differently.
 *
 * @since 0.1.0
 */
import * as Config from "effect/Config"
import type * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Auth from "./Auth.ts"
import { chat } from "./internal/chat.ts"
import { makeClient } from "./internal/transport.ts"
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
 * The profile that these options make: OpenAI's address, the key as a bearer token, and the model's name as its own.
 *
 * @category constructors
 * @since 0.1.0
 */
export const profile = ({
  apiKey = Config.Redacted("OPENAI_API_KEY"),
  ...options
}: Options): ModelProfile => ({
  name: options.model,
  baseUrl: "https://api.openai.com/v1",
  auth: Auth.bearer(apiKey, { missing }),
  ...options,
  protocol: "chat"
})

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

const missing = "There is no key for this model: set OPENAI_API_KEY, or pass apiKey."
