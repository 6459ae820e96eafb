/**
 * What a call of an MCP server's tool came to, as the result of a tool or its failure.
 */
import type { McpClientError } from "effect/ai/McpClientError"
import type * as McpSchema from "effect/ai/McpSchema"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import type { UserPart } from "../../domain/Message.ts"
import * as Tool from "../Tool.ts"
import { ToolFailure } from "../ToolError.ts"
import type * as Connection from "./mcpConnection.ts"

/** The content of a result, as much of it as is passed on; a failure where the server says that it is one. */
export const resultOf = (
  result: McpSchema.CallToolResult,
  longest: number
): Effect.Effect<Tool.Content, ToolFailure> => {
  const parts = result.content.flatMap(partsOf)
  if (result.isError === true) {
    const said = parts.flatMap((part) => (part._tag === "text" ? [part.text] : [])).join("\n")
    return Effect.fail(
      new ToolFailure({ description: said === "" ? "The server says that it failed." : cut(said, longest) })
    )
  }
  if (parts.length === 0 && result.structuredContent !== undefined) {
    parts.push({ _tag: "text", text: JSON.stringify(result.structuredContent) })
  }
  let room = longest
  const bounded = parts.map((part): UserPart => {
    const size = part._tag === "text" ? part.text.length : sizeOf(part)
    const fits = size <= room
    const shown =
      part._tag === "text"
        ? cut(part.text, room)
        : `A file of ${part.mediaType} was left out: it is too large.`
    room = Math.max(0, room - size)
    return fits ? part : { _tag: "text", text: shown }
  })
  return Effect.succeed(Tool.content(bounded))
}

/** The beginning of a text that is too long, and how much of it there was. */
const cut = (text: string, longest: number): string =>
  text.length <= longest
    ? text
    : `${text.slice(0, longest)}\n[Cut here: the server sent ${text.length} characters, and ${longest} are passed on.]`

const sizeOf = ({ source }: Extract<UserPart, { readonly _tag: "file" }>): number =>
  source._tag === "bytes" ? source.base64.length : 0

const partsOf = (block: McpSchema.CallToolResult["content"][number]): ReadonlyArray<UserPart> => {
  switch (block.type) {
    case "text":
      return [{ _tag: "text", text: block.text }]
    case "image":
    case "audio":
      return [fileOf(block.mimeType, block.data)]
    case "resource_link": {
      const about = block.description === undefined ? "" : `\n${block.description}`
      return [{ _tag: "text", text: `${block.title ?? block.name}: ${block.uri}${about}` }]
    }
    case "resource": {
      const { resource } = block
      return "text" in resource
        ? [{ _tag: "text", text: resource.text }]
        : [fileOf(resource.mimeType ?? "application/octet-stream", resource.blob, resource.uri)]
    }
  }
}

const fileOf = (mediaType: string, bytes: Uint8Array, name?: string): UserPart => ({
  _tag: "file",
  mediaType,
  source: { _tag: "bytes", base64: Base64.encode(bytes) },
  ...(name === undefined ? {} : { name })
})

/**
 * Whether a call took effect is not known once it was sent, whatever failed then, but for the answers of a server that ran nothing: only
 * the result of a tool says what it did.
 */
export const failureOf = (
  name: string,
  error: McpClientError | Connection.NotCalled,
  longest: number
): ToolFailure => {
  if (error._tag === "NotCalled") {
    return new ToolFailure({ description: `${name} was not called: ${error.why}.` })
  }
  const { reason } = error
  switch (reason._tag) {
    case "TransportError":
    case "ClosedError":
    case "TimeoutError":
      return new ToolFailure({ description: `The server of ${name} has gone. ${inDoubt}` })
    case "ToolError":
    case "UnsupportedError":
      return new ToolFailure({
        description: `The server of ${name} could not answer: ${cut(reason.message, longest)}`
      })
    default:
      return new ToolFailure({
        description: `The server of ${name} gave no result: ${cut(reason.message, longest)}\n${inDoubt}`
      })
  }
}

const inDoubt = "The call may have taken effect all the same."
