/**
 * Converts the outcome of a call to an MCP server into the result or the failure of a tool.
 */
import type { McpClientError } from "effect/ai/McpClientError"
import type * as McpSchema from "effect/ai/McpSchema"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import type { UserPart } from "../../domain/Message.ts"
import * as Tool from "../Tool.ts"
import { ToolFailure } from "../ToolError.ts"
import type * as Connection from "./mcpConnection.ts"

/** Converts a result to content of at most `longest` characters. Fails if the server marks the result as an error. */
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

/** Cuts a text that is too long, and states its length. */
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
 * Converts the error of a call to a failure of the tool. The failure says that the call may have taken effect, unless nothing ran
 * (`NotCalled`, `UnsupportedError`) or the tool itself reported the error (`ToolError`).
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
