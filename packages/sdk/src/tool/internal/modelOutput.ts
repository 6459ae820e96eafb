/**
 * Converts between the parts of a tool's result and those of Effect AI.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import { text, type UserPart } from "../../domain/Message.ts"
import { isContent, toContent } from "../Tool.ts"

/** The parts of a result of a toolkit's tool. */
export const partsOf = (parts: ReadonlyArray<Prompt.ToolModelOutputPart>): ReadonlyArray<UserPart> =>
  parts.map((part): UserPart => {
    if (part.type === "text") return text(part.text)
    const { data, fileName, mediaType } = part
    const source =
      data instanceof URL
        ? ({ _tag: "url", url: data.href } as const)
        : ({ _tag: "bytes", base64: typeof data === "string" ? data : Base64.encode(data) } as const)
    return { _tag: "file", mediaType, source, ...(fileName === undefined ? {} : { name: fileName }) }
  })

/** The parts of a result for Effect AI. */
export const modelOutputOf = (result: unknown): ReadonlyArray<Prompt.ToolModelOutputPart> =>
  isContent(result) ? toContent(result).map(outputPart) : [Prompt.textPart({ text: textOf(result) })]

const textOf = (result: unknown): string =>
  typeof result === "string" ? result : (JSON.stringify(result) ?? "")

const outputPart = (part: UserPart): Prompt.ToolModelOutputPart => {
  if (part._tag === "text") return Prompt.textPart({ text: part.text })
  const { mediaType, name, source } = part
  if (source._tag === "reference")
    return Prompt.textPart({ text: `The file ${source.id} of ${source.provider}.` })
  if (source._tag === "stored")
    return Prompt.textPart({ text: `The stored file ${name ?? source.sha256} of ${mediaType}.` })
  const data =
    source._tag === "url" ? new URL(source.url) : Result.getOrElse(Base64.decode(source.base64), () => "")
  return Prompt.filePart({ mediaType, data, ...(name === undefined ? {} : { fileName: name }) })
}
