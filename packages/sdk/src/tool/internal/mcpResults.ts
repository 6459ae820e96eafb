/**
 * Converts the outcome of a call to an MCP server into the result or the failure of a tool.
 */
import type { McpClientError } from "effect/ai/McpClientError"
import type * as McpSchema from "effect/ai/McpSchema"
import * as Effect from "effect/Effect"
import type { UserPart } from "../../domain/Message.ts"
import * as Tool from "../Tool.ts"
import { ToolFailure } from "../ToolError.ts"
import type * as Connection from "./mcpConnection.ts"
import { attachment } from "./resultParts.ts"

/** Converts a result to content. Fails if the server marks the result as an error. */
export const resultOf = (result: McpSchema.CallToolResult): Effect.Effect<Tool.Content, ToolFailure> => {
  const parts = result.content.flatMap(partsOf)
  if (result.isError === true) {
    const said = parts.flatMap((part) => (part._tag === "text" ? [part.text] : [])).join("\n")
    return Effect.fail(
      new ToolFailure({ description: said === "" ? "The server says that it failed." : said })
    )
  }
  if (parts.length === 0 && result.structuredContent !== undefined) {
    parts.push({ _tag: "text", text: JSON.stringify(result.structuredContent) })
  }
  return Effect.succeed(Tool.content(parts))
}

const partsOf = (block: McpSchema.CallToolResult["content"][number]): ReadonlyArray<UserPart> => {
  switch (block.type) {
    case "text":
      return [{ _tag: "text", text: block.text }]
    case "image":
    case "audio":
      return [attachment(block.data, block.mimeType)]
    case "resource_link": {
      const about = block.description === undefined ? "" : `\n${block.description}`
      return [{ _tag: "text", text: `${block.title ?? block.name}: ${block.uri}${about}` }]
    }
    case "resource": {
      const { resource } = block
      return "text" in resource
        ? [{ _tag: "text", text: resource.text }]
        : [attachment(resource.blob, resource.mimeType, resource.uri)]
    }
  }
}

/**
 * Converts the error of a call to a failure of the tool. The failure says that the call may have taken effect, unless nothing ran
 * (`NotCalled`, `UnsupportedError`) or the tool itself reported the error (`ToolError`).
 */
export const failureOf = (name: string, error: McpClientError | Connection.NotCalled): ToolFailure => {
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
        description: `The server of ${name} could not answer: ${reason.message}`
      })
    default:
      return new ToolFailure({
        description: `The server of ${name} gave no result: ${reason.message}\n${inDoubt}`
      })
  }
}

const inDoubt = "The call may have taken effect all the same."
