/** How long an answer may be: as long as is asked for, as the model can write, and as there is room for beside what is sent. */
import type { ModelProfile } from "../ModelProfile.ts"
import type { ModelRequest } from "../ModelRequest.ts"
import { countRequest, type Tokenizer } from "../Tokenizer.ts"

/**
 * A count is an estimate, and mostly too high. Where it leaves less than this, the provider should say itself that the request does
 * not fit: an answer that is cut after a few words is of no use.
 */
const leastRoom = 1024

/** How many tokens of output a model has room for beside this request; `undefined` where its size is not known. */
export const roomFor = (
  request: ModelRequest,
  { contextTokens }: ModelProfile,
  tokenizer: Tokenizer
): number | undefined =>
  contextTokens === undefined
    ? undefined
    : Math.max(leastRoom, contextTokens - countRequest(tokenizer, request))

/** The bound that is sent; `undefined` where none is asked for. */
export const outputBound = (
  asked: number | undefined,
  { maxOutputTokens: possible }: Pick<ModelProfile, "maxOutputTokens">,
  room: number | undefined
): number | undefined =>
  asked === undefined ? undefined : Math.min(asked, possible ?? Infinity, room ?? Infinity)
