/**
 * Makes and checks a model profile from options. Unknown options are refused, since a misspelt price or limit would have no effect.
 */
import * as Effect from "effect/Effect"
import {
  demanded,
  type Kind,
  nonEmpty,
  positive,
  required,
  shapeOf,
  string,
  withAnyOf
} from "../../domain/internal/misfits.ts"
import { millisOf } from "../../domain/internal/untyped.ts"
import { problemOf } from "../../domain/OptionsInvalid.ts"
import * as Auth from "../Auth.ts"
import type { CircuitBreaker, ModelProfile, ProtocolName, RateLimit } from "../ModelProfile.ts"

/** A time after which a server is asked again. */
const cooldown: Kind = {
  takes: 'a duration above 0 that ends, such as "30 seconds"',
  is: (value) => {
    const ms = millisOf(value)
    return ms !== undefined && ms > 0 && ms < Infinity
  },
  among: ["string", "number"]
}

/** The shapes of the options that limit requests. */
export const limitShapes = {
  rateLimit: withAnyOf(
    demanded(shapeOf<RateLimit>({ requestsPerMinute: positive, tokensPerMinute: positive, key: nonEmpty })),
    "requestsPerMinute",
    "tokensPerMinute"
  ),
  circuitBreaker: demanded(shapeOf<CircuitBreaker>({ failures: positive, cooldown, key: nonEmpty }))
}

const shape = shapeOf<ModelProfile & { readonly apiKey?: Auth.Secret }>({
  model: required(string),
  // A complete profile is accepted as options. Its protocol is ignored.
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
  timeouts: "anything",
  ...limitShapes
})

/** The defaults of a provider: its server, its key, and the name of the module for error messages (`of`). */
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

/** Defaults shared by both protocols of OpenAI. */
export const openAi = {
  baseUrl: "https://api.openai.com/v1",
  keyName: "OPENAI_API_KEY",
  auth: Auth.bearer
}

/**
 * Makes a profile. Defaults: the provider's address, the key from the environment, and the model's name as the profile's name. Throws
 * `OptionsInvalid` for an unknown option, for a `model`, `name` or `baseUrl` that is not a string, and for an invalid `rateLimit` or
 * `circuitBreaker`.
 */
export const profileWith = (
  { auth, baseUrl, keyName, of, protocol }: Provider,
  given: { readonly model: string; readonly apiKey?: Auth.Secret } & Partial<ModelProfile>
): ModelProfile => {
  const problem = problemOf(of, given ?? null, shape)
  if (problem !== undefined) throw problem
  const { apiKey = fromEnvironment(keyName), ...options } = given
  const missing = `There is no key for this model: set ${keyName}, or pass apiKey.`
  return { name: options.model, baseUrl, auth: auth(apiKey, { missing }), ...options, protocol }
}

/** The key in the environment. `effect/Config` is loaded when the key is read, because loading it takes a while and few programs need it. */
const fromEnvironment = (name: string): Auth.Secret =>
  Effect.flatMap(
    Effect.promise(() => import("effect/Config")),
    (Config) => Config.Redacted(name)
  )
