import { createServer } from "node:http"
import { join } from "node:path"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { ReplayServer } from "@fermata/node/testing"
import { Agent, Message, RunState, runPrompt, Runtime, type Tool } from "@fermata/sdk"
import * as McpTools from "@fermata/sdk/mcp"
import { ModelClient } from "@fermata/sdk/model"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as McpProtocol from "effect/ai/McpProtocol"
import * as McpServer from "effect/ai/McpServer"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import * as ChildProcess from "effect/process/ChildProcess"
import type * as Schema from "effect/Schema"
import { sourceFlags } from "../../../../scripts/internal/sourceFlags.ts"
import { registrations } from "./mcpTools.ts"

const program = join(import.meta.dirname, "../programs/mcpServer.ts")
const command = (revision: string) => ChildProcess.make(process.execPath, [...sourceFlags, program, revision])

/** Runs a prompt in which the model calls a tool and then ends. */
const runCall = (
  tools: ReadonlyArray<Tool.Tool>,
  name: string,
  args: Schema.JsonObject,
  limits: object = {}
) =>
  Effect.gen(function* () {
    const model = ScriptedModel.make([{ calls: [{ tool: name, arguments: args }] }, "done"])
    const agent = Agent.make("a", { tools, limits })
    const runtime = yield* Effect.provideService(
      Runtime.make({ agent }),
      ModelClient.ModelClient,
      model.client
    )
    return yield* runPrompt(runtime, { prompt: "go" })
  })

/** The message with a call's result that the model gets. */
const resultIn = (state: RunState.RunState): Message.ToolMessage =>
  RunState.messages(state).find((message) => message.role === "tool")!

/** The tools of a server that runs in this process, behind a port. */
const overHttp = (protocol: McpProtocol.ProtocolAdapter, options?: Parameters<typeof McpTools.fromUrl>[1]) =>
  Effect.gen(function* () {
    const server = yield* Layer.build(
      HttpRouter.serve(
        McpServer.layerHttp({
          name: "tested",
          version: "1.0.0",
          path: "/mcp",
          protocols: [protocol],
          registrations,
          allowSessionTermination: true
        }),
        { disableLogger: true, disableListenLog: true }
      ).pipe(Layer.provideMerge(NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1" })))
    )
    const { address } = Context.get(server, HttpServer.HttpServer)
    if (address._tag === "UnixPathAddress") return yield* Effect.die(address)
    return yield* McpTools.fromUrl(`http://127.0.0.1:${address.port}/mcp`, options)
  })

describe("McpTools over a process", () => {
  for (const revision of ["2025-11-25", "2026-07-28"]) {
    it.live(
      `runs the tools of a server that speaks ${revision}`,
      () =>
        Effect.gen(function* () {
          const tools = yield* McpTools.fromProcess(command(revision), { prefix: "mcp_", trustHints: true })
          assert.sameDeepMembers(
            tools.map(({ idempotent, name, safety }) => [name, safety, idempotent]),
            [
              ["mcp_add", "readOnly", true],
              ["mcp_remove", "sideEffecting", false],
              ["mcp_hang", "sideEffecting", false],
              ["mcp_leave", "sideEffecting", false]
            ]
          )
          const { state, status } = yield* runCall(tools, "mcp_add", { a: 3, b: 4 })
          assert.strictEqual(status, "completed")
          assert.include(Message.textOf(resultIn(state).content), '"sum":7')
          const removing = yield* runCall(tools, "mcp_remove", { path: "/tmp/x" })
          assert.strictEqual(removing.status, "interrupted")
        }).pipe(Effect.provide(NodeServices.layer)),
      300_000
    )
  }

  it.live(
    "reports that a call may have taken effect when its server exits during the call",
    () =>
      Effect.gen(function* () {
        const tools = yield* McpTools.fromProcess(command("2025-11-25"), { needsApproval: false })
        const { state } = yield* runCall(tools, "leave", {})
        const { content, outcome } = resultIn(state)
        assert.strictEqual(outcome, "failed")
        assert.include(Message.textOf(content), "may have taken effect")
      }).pipe(Effect.provide(NodeServices.layer)),
    300_000
  )

  it.live(
    "fails with McpServerError when the program is not an MCP server",
    () =>
      Effect.gen(function* () {
        const node = (code: string) => ChildProcess.make(process.execPath, ["--eval", code])
        for (const program of [
          node("console.log('hello')"),
          node("process.exit(1)"),
          ChildProcess.make("no-such-program", [])
        ]) {
          const error = yield* Effect.flip(McpTools.fromProcess(program))
          assert.strictEqual(error._tag, "McpServerError")
          assert.notInclude(error.message, process.execPath)
        }
        const silent = node("process.stdin.resume()")
        const late = yield* Effect.flip(McpTools.fromProcess(silent, { timeout: "50 millis" }))
        assert.strictEqual(late.reason, "TimeoutError")
      }).pipe(Effect.provide(NodeServices.layer)),
    300_000
  )
})

describe("McpTools over HTTP", () => {
  for (const protocol of [
    McpProtocol.v2024_11_05,
    McpProtocol.v2025_03_26,
    McpProtocol.v2025_06_18,
    McpProtocol.v2025_11_25,
    McpProtocol.v2026_07_28
  ]) {
    it.live(`runs the tools of a server that speaks ${protocol.protocolVersion}`, () =>
      Effect.gen(function* () {
        const tools = yield* overHttp(protocol, { safety: "readOnly" })
        const { state } = yield* runCall(tools, "add", { a: 3, b: 4 })
        assert.include(Message.textOf(resultIn(state).content), '"sum":7')
      }).pipe(Effect.provide(FetchHttpClient.layer))
    )
  }

  it.live("ignores a server's hints about the safety of its tools by default", () =>
    Effect.gen(function* () {
      const tools = yield* overHttp(McpProtocol.v2025_11_25)
      assert.isTrue(tools.every(({ idempotent, safety }) => safety === "sideEffecting" && !idempotent))
      const { status } = yield* runCall(tools, "add", { a: 3, b: 4 })
      assert.strictEqual(status, "interrupted")
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )

  it.live("fails a call with invalid arguments before it opens a request", () =>
    Effect.gen(function* () {
      const tools = yield* overHttp(McpProtocol.v2025_11_25)
      const { state, status } = yield* runCall(tools, "remove", { path: 7 })
      assert.strictEqual(status, "completed")
      assert.strictEqual(resultIn(state).outcome, "failed")
      assert.include(Message.textOf(resultIn(state).content), "path")
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )

  it.live("returns the server's error text to the model", () =>
    Effect.gen(function* () {
      const tools = yield* overHttp(McpProtocol.v2025_11_25, { needsApproval: false })
      const { state } = yield* runCall(tools, "remove", { path: "/" })
      assert.strictEqual(resultIn(state).outcome, "failed")
      assert.include(Message.textOf(resultIn(state).content), "That is everything.")
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )

  it.live("ends a call that takes longer than `toolTimeoutMs`", () =>
    Effect.gen(function* () {
      const tools = yield* overHttp(McpProtocol.v2025_11_25, { needsApproval: false })
      const { state } = yield* runCall(tools, "hang", {}, { toolTimeoutMs: 200 })
      assert.include(Message.textOf(resultIn(state).content), "did not finish within 200 ms")
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )

  it.live("keeps only the tools that `include` accepts", () =>
    Effect.gen(function* () {
      const include = ({ name }: { readonly name: string }) => name === "add"
      const tools = yield* overHttp(McpProtocol.v2025_11_25, { include })
      assert.deepStrictEqual(
        tools.map(({ name }) => name),
        ["add"]
      )
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )

  it.live("fails with TransportError when no server listens, and with HttpError on a 404", () =>
    Effect.gen(function* () {
      const { url } = yield* Effect.scoped(ReplayServer.make([]))
      const error = yield* Effect.flip(McpTools.fromUrl(`${url}/mcp`))
      assert.strictEqual(error.reason, "TransportError")
      const server = yield* ReplayServer.make(() => ({ status: 404, body: "no such page" }))
      const other = yield* Effect.flip(McpTools.fromUrl(`${server.url}/mcp`))
      assert.strictEqual(other.reason, "HttpError")
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )
})

describe("a redirect by an MCP server", () => {
  it.live("does not carry the caller's headers to another host", () =>
    Effect.gen(function* () {
      const other = yield* ReplayServer.make(() => ({ body: "{}" }))
      const redirecting = yield* ReplayServer.make(() => ({
        status: 307,
        headers: { location: `${other.url}/mcp` },
        body: ""
      }))
      const error = yield* Effect.flip(
        McpTools.fromUrl(`${redirecting.url}/mcp`, { headers: { "x-api-key": "mcp-secret" } })
      )
      assert.strictEqual(error._tag, "McpServerError")
      assert.notInclude(JSON.stringify(error), "mcp-secret")
      assert.deepStrictEqual(other.requests, [])
      assert.isAbove(redirecting.requests.length, 0)
      assert.isUndefined(redirecting.requests[0]?.headers["traceparent"])
    }).pipe(Effect.scoped, Effect.provide(FetchHttpClient.layer))
  )
})
