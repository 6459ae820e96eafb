/**
 * What the profile of a model may be made of, key by key: a price or a bound under a misspelt key would count for nothing.
 */
import * as Config from "effect/Config"
import { shapeOf, string } from "../../domain/internal/misfits.ts"
import { problemOf } from "../../domain/OptionsInvalid.ts"
import * as Auth from "../Auth.ts"
import type { ModelProfile, ProtocolName } from "../ModelProfile.ts"

const shape = shapeOf<ModelProfile & { readonly apiKey?: Auth.Secret }>({
  model: string,
  // A whole profile may be given: the function says which protocol it is for.
  protocol: "anything",
  apiKey: "anything",
  name: string,
  baseUrl: string,
  auth: "anything",
  headers: "anything",
  contextTokens: "anything",
  maxOutputTokens: "anything",
  prices: "anything",
  compatibility: "anything",
  settings: "anything",
  retry: "anything",
  timeouts: "anything"
})

/** The provider whose options they are: the module that takes them, its server, and how its key is found and shown. */
interface Provider {
  readonly of: string
  readonly protocol: ProtocolName
  readonly baseUrl: string
  readonly keyName: string
  readonly auth: (
    key: Auth.Secret,
    options: { readonly missing: string }
  ) => NonNullable<ModelProfile["auth"]>
}

/** What is the same for both protocols of OpenAI. */
export const openAi = {
  baseUrl: "https://api.openai.com/v1",
  keyName: "OPENAI_API_KEY",
  auth: Auth.bearer
}

/**
 * The provider's address, the key from the environment, and the model's name as its own, where the options do not say otherwise. Throws
 * `OptionsInvalid` for options that no profile has.
 */
export const profileWith = (
  { auth, baseUrl, keyName, of, protocol }: Provider,
  given: { readonly model: string; readonly apiKey?: Auth.Secret } & Partial<ModelProfile>
): ModelProfile => {
  const problem = problemOf(of, given ?? null, shape)
  if (problem !== undefined) throw problem
  const { apiKey = Config.Redacted(keyName), ...options } = given
  const missing = `There is no key for this model: set ${keyName}, or pass apiKey.`
  return { name: options.model, baseUrl, auth: auth(apiKey, { missing }), ...options, protocol }
}
