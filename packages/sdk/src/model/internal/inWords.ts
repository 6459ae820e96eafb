/** Texts for content that a provider does not accept in a structured form: files, and the schema of structured output. */
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import type { FilePart } from "../../domain/Message.ts"
import type { ModelRequest } from "../ModelRequest.ts"

export const titleOf = ({ mediaType, name }: FilePart): string => name ?? mediaType

export const unavailableFile = (file: FilePart): string => `[${titleOf(file)}: not available to this model]`

/** A file for which the protocol has no place. Its address may be of use to the model, for example for a tool. */
export const fileInWords = (file: FilePart): string =>
  file.source._tag === "url" ? `[${titleOf(file)}: ${file.source.url}]` : unavailableFile(file)

/** The content of a text file; `undefined` for any other file. */
export const textOfFile = ({ mediaType, source }: FilePart): string | undefined => {
  if (source._tag !== "bytes") return undefined
  if (!mediaType.startsWith("text/") && mediaType !== "application/json") return undefined
  return Result.getOrUndefined(Base64.decodeString(source.base64))
}

/** The instructions of a request. If the request has no field for the output schema (`isGivenSchema`), they contain it. */
export const instructionsOf = ({ instructions, output }: ModelRequest, isGivenSchema: boolean): string =>
  output === undefined || isGivenSchema
    ? instructions
    : `${instructions === "" ? "" : `${instructions}\n\n`}Give the final answer as a JSON object, and nothing else, that fits this JSON Schema:\n${JSON.stringify(output.schema)}`
