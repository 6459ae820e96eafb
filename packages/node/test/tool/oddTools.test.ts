import { assert, describe, it } from "@effect/vitest"
import { ReplayServer } from "@fermata/node/testing"
import { Agent, BoundAgent } from "@fermata/sdk"
import * as McpTools from "@fermata/sdk/mcp"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Logger from "effect/Logger"

const object = { type: "object", properties: { at: { type: "string" } } }

/** A server that lists these tools. A call returns the tool's name. */
const serverOf = (tools: ReadonlyArray<unknown>) =>
  ReplayServer.make(({ body }) => {
    const { id, method, params } = JSON.parse(body)
    const result =
      method === "initialize"
        ? {
            protocolVersion: "2025-11-25",
            capabilities: { tools: {} },
            serverInfo: { name: "odd", version: "1" }
          }
        : method === "tools/list"
          ? { tools }
          : { content: [{ type: "text", text: `called ${params?.name}` }] }
    return id === undefined
      ? { status: 202, body: "" }
      : {
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ jsonrpc: "2.0", id, result })
        }
  })

describe("an MCP server with odd tools", () => {
  it.live("yields the tools that can be shown, under names that models accept, and warns of the others", () =>
    Effect.gen(function* () {
      const server = yield* serverOf([
        { name: "fs.read", inputSchema: object },
        { name: "fs/read", inputSchema: { anyOf: [{ required: ["at"] }], ...object } },
        { name: "bare" },
        { name: "list", inputSchema: { type: "array", items: {} } },
        { name: "bare", description: "again" },
        { inputSchema: object }
      ])
      const warnings: Array<string> = []
      const logger = Logger.make(({ logLevel, message }) => {
        warnings.push(`${logLevel}: ${String(message)}`)
      })
      const tools = yield* McpTools.fromUrl(`${server.url}/mcp`, { prefix: "odd_" }).pipe(
        Effect.provide(Logger.layer([logger]))
      )
      const names = tools.map(({ name }) => name)
      assert.lengthOf(names, 3)
      for (const name of names) assert.match(name, /^odd_(fs_read_[a-z0-9]{6}|bare)$/)
      assert.deepStrictEqual(warnings, [
        'Warn: The MCP tool "list" is left out: its arguments are not an object.',
        'Warn: The MCP tool "" is left out: it has no name.',
        'Warn: The MCP tool "bare" is left out: the server lists another tool with this name.'
      ])
      // `BoundAgent.make` checks names and schemas.
      const { definitions } = yield* BoundAgent.make(Agent.make("a", { tools }))
      assert.strictEqual(definitions.length, 3)
      for (const { parameters } of definitions) assert.notProperty(parameters, "anyOf")
      assert.include(definitions[1]!.description, '{"anyOf":[{"required":["at"]}]}')
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )

  it.live("is called with its own tool names", () =>
    Effect.gen(function* () {
      const server = yield* serverOf([{ name: "fs.read", inputSchema: object }])
      const [tool] = yield* McpTools.fromUrl(`${server.url}/mcp`)
      assert.strictEqual(tool?.name, "fs_read")
      const context = {} as never
      yield* tool!.options.handler({ at: "x" }, context) as Effect.Effect<unknown>
      const { method, params } = JSON.parse(server.requests.at(-1)!.body)
      assert.strictEqual(method, "tools/call")
      assert.deepInclude(params, { name: "fs.read", arguments: { at: "x" } })
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )
})
