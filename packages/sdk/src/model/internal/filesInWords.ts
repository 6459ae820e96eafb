/** Files where a provider takes only words: what is in them, or at least that they were there. */
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import type { FilePart } from "../../domain/Message.ts"

export const titleOf = ({ mediaType, name }: FilePart): string => name ?? mediaType

export const leftOut = (file: FilePart): string => `[${titleOf(file)}: not available to this model]`

/** What is in a file of text; `undefined` for any other file. */
export const textOfFile = ({ mediaType, source }: FilePart): string | undefined => {
  if (source._tag !== "bytes") return undefined
  if (!mediaType.startsWith("text/") && mediaType !== "application/json") return undefined
  return Result.getOrUndefined(Base64.decodeString(source.base64))
}
