/** An MCP server over HTTP that lists the tools that a test gives. */
import { ReplayServer } from "@fermata/node/testing"
import type { Tool } from "@fermata/sdk"
import * as McpTools from "@fermata/sdk/mcp"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import type * as Scope from "effect/Scope"

/** A tool as a server lists it. */
export const listed = (name: string, properties: object = {}, more: object = {}) => ({
  name,
  inputSchema: { type: "object", properties },
  ...more
})

/** A server with this name and these tools. A call returns the tool's name. */
export const listing = Effect.fnUntraced(function* (server: string, tools: ReadonlyArray<unknown>) {
  const called: Array<string> = []
  const { url } = yield* ReplayServer.make(({ body }) => {
    const { id, method, params } = JSON.parse(body)
    if (id === undefined) return { status: 202, body: "" }
    if (method === "tools/call") called.push(params.name)
    const result =
      method === "initialize"
        ? {
            protocolVersion: "2025-11-25",
            capabilities: { tools: {} },
            serverInfo: { name: server, version: "1" }
          }
        : method === "tools/list"
          ? { tools }
          : { content: [{ type: "text", text: `called ${params?.name}` }] }
    return {
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id, result })
    }
  })
  const toolsWith = (
    options: Parameters<typeof McpTools.fromUrl>[1] = {}
  ): Effect.Effect<ReadonlyArray<Tool.Tool>, McpTools.McpServerError, HttpClient.HttpClient | Scope.Scope> =>
    McpTools.fromUrl(`${url}/mcp`, options)
  return { called, toolsWith }
})
