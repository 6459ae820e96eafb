/** The limit on the output tokens of a response: what the request asks for, bounded by the model and by the space left in its context. */
import type { ModelProfile } from "../ModelProfile.ts"
import type { ModelRequest } from "../ModelRequest.ts"
import { countRequest, type Tokenizer } from "../Tokenizer.ts"

/**
 * The estimate of the input is usually too high. If it leaves less space than this, this much is requested all the same, and the
 * provider decides if the request fits: a response that is cut off after a few words is of no use.
 */
const leastRoom = 1024

/** The output tokens that fit into the model's context beside the request, at least 1024; `undefined` if the size of the context is unknown. */
export const roomFor = (
  request: ModelRequest,
  { contextTokens }: ModelProfile,
  tokenizer: Tokenizer
): number | undefined =>
  contextTokens === undefined
    ? undefined
    : Math.max(leastRoom, contextTokens - countRequest(tokenizer, request))

/** The limit to send; `undefined` if the request asks for none. */
export const outputBound = (
  asked: number | undefined,
  { maxOutputTokens: possible }: Pick<ModelProfile, "maxOutputTokens">,
  room: number | undefined
): number | undefined =>
  asked === undefined ? undefined : Math.min(asked, possible ?? Infinity, room ?? Infinity)
