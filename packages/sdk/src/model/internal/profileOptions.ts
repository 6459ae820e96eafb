/**
 * What the profile of a model may be made of, key by key: a price or a bound under a misspelt key would count for nothing.
 */
import { shapeOf, string } from "../../domain/internal/misfits.ts"
import { problemOf } from "../../domain/OptionsInvalid.ts"
import type * as Auth from "../Auth.ts"
import type { ModelProfile } from "../ModelProfile.ts"

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

/** Throws `OptionsInvalid` for options that no profile has. `of` is the module whose function is given them. */
export const requireProfileOptions = (of: string, options: unknown): void => {
  const problem = problemOf(of, options ?? null, shape)
  if (problem !== undefined) throw problem
}
