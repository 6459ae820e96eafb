/**
 * Models behind `/v1/messages`: Anthropic's, and those of servers that speak the same protocol.
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

/** What is asked, and where. Only `model` has to be said. */
export interface Options extends Partial<Omit<ModelProfile, "protocol" | "model">> {
  /** The provider's name for the model. */
  readonly model: string
  /** Default: the environment's `ANTHROPIC_API_KEY`, read at each call. Ignored where `auth` is given. */
  readonly apiKey?: Auth.Secret
}

/**
 * The profile that these options make: Anthropic's address, the key as `x-api-key`, and the model's name as its own. Throws
 * `OptionsInvalid` for a key that there is not.
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
 * A client.
 *
 * **Details**
 *
 * Where the provider pauses in the middle of work of its own tools (`pause_turn`), the client sends back what was said and goes on,
 * ten times at most; the answer is one, and its usage that of all requests.
 *
 * **Errors**
 *
 * Calls fail with `ModelError`; a missing key is one with the reason `NotAuthorized`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options: Options): Effect.Effect<ModelClient["Service"], never, HttpClient.HttpClient> =>
  Effect.map(makeClient(messages, profile(options)), continuing)

/**
 * The client as the `ModelClient`.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options): Layer.Layer<ModelClient, never, HttpClient.HttpClient> =>
  Layer.effect(ModelClient, make(options))
