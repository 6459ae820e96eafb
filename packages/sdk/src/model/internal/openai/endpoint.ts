/**
 * What is the same for both protocols of OpenAI: the address and the key.
 */
import * as Config from "effect/Config"
import * as Auth from "../../Auth.ts"
import type { ModelProfile } from "../../ModelProfile.ts"
import { requireProfileOptions } from "../profileOptions.ts"

/** What is asked, and where. Only `model` has to be said. */
export interface Options extends Partial<Omit<ModelProfile, "protocol" | "model">> {
  /** The provider's name for the model. */
  readonly model: string
  /** Default: the environment's `OPENAI_API_KEY`, read at each call. Ignored where `auth` is given. */
  readonly apiKey?: Auth.Secret
}

/** OpenAI's address, the key as a bearer token, and the model's name as its own, where the options do not say otherwise. */
export const openAiProfile = (protocol: "chat" | "responses", given: Options): ModelProfile => {
  requireProfileOptions(protocol === "chat" ? "OpenAiChat" : "OpenAiResponses", given)
  const { apiKey = Config.Redacted("OPENAI_API_KEY"), ...options } = given
  return {
    name: options.model,
    baseUrl: "https://api.openai.com/v1",
    auth: Auth.bearer(apiKey, { missing }),
    ...options,
    protocol
  }
}

const missing = "There is no key for this model: set OPENAI_API_KEY, or pass apiKey."
