import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { ReplayServer } from "@fermata/node/testing"
import { Agent, Message, RunState, runPrompt, Runtime, type Tool } from "@fermata/sdk"
import * as McpTools from "@fermata/sdk/mcp"
import { ModelClient } from "@fermata/sdk/model"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as McpClient from "effect/ai/McpClient"
import * as McpProtocol from "effect/ai/McpProtocol"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as ChildProcess from "effect/process/ChildProcess"
import { temporaryFile } from "../temporaryStore.ts"

const program = join(import.meta.dirname, "../programs/mcpOddServer.ts")
const doubt = "may have taken effect"

/** Makes the calls, one batch after another, and returns the results that the model gets. */
const callAll = (tools: ReadonlyArray<Tool.Tool>, batches: ReadonlyArray<ReadonlyArray<string>>) =>
  Effect.gen(function* () {
    const model = ScriptedModel.make([
      ...batches.map((batch) => ({ calls: batch.map((tool) => ({ tool, arguments: {} })) })),
      "done"
    ])
    const runtime = yield* Effect.provideService(
      Runtime.make({ agent: Agent.make("a", { tools, limits: { toolTimeoutMs: 30_000 } }) }),
      ModelClient.ModelClient,
      model.client
    )
    const { state, status } = yield* runPrompt(runtime, { prompt: "go" })
    assert.strictEqual(status, "completed")
    return RunState.messages(state).flatMap((message) =>
      message.role === "tool" ? [Message.textOf(message.content)] : []
    )
  })

/** The tools of a process of `mcpOddServer.ts`, and the calls that took effect in it. */
const odd = Effect.gen(function* () {
  const ledger = yield* temporaryFile
  writeFileSync(ledger, "")
  const command = ChildProcess.make(process.execPath, [program, ledger])
  const tools = yield* McpTools.fromProcess(command, { safety: "readOnly" })
  return { tools, effects: () => readFileSync(ledger, "utf8").trim().split("\n"), command }
})

const live = (title: string, test: Effect.Effect<void, unknown, never>) =>
  it.live(title, () => Effect.orDie(test), 120_000)

describe("an MCP server's process", () => {
  live(
    "loses only its result of 30 MB: the calls beside it get theirs, and the connection stays open",
    Effect.gen(function* () {
      const { effects, tools } = yield* odd
      const [paid, big, fine] = yield* callAll(tools, [["pay", "big"], ["fine"]])
      assert.strictEqual(paid, "paid")
      assert.include(big, "larger than 16 MiB")
      assert.include(big, doubt)
      assert.strictEqual(fine, "fine")
      assert.deepStrictEqual(effects(), ["start", "pay", "big", "fine"])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  live(
    "may log to its standard output",
    Effect.gen(function* () {
      const { effects, tools } = yield* odd
      assert.deepStrictEqual(yield* callAll(tools, [["log"], ["fine"]]), ["logged", "fine"])
      assert.deepStrictEqual(effects(), ["start", "log", "fine"])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  live(
    "that dies leaves its calls in doubt and is started again for the next one",
    Effect.gen(function* () {
      const { effects, tools } = yield* odd
      const [paid, died, fine] = yield* callAll(tools, [["pay", "die"], ["fine"]])
      assert.include(paid, doubt)
      assert.include(died, doubt)
      assert.strictEqual(fine, "fine")
      assert.deepStrictEqual(effects(), ["start", "pay", "die", "start", "fine"])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  live(
    "that sends an invalid message leaves its calls in doubt and is started again for the next one",
    Effect.gen(function* () {
      const { effects, tools } = yield* odd
      const [paid, nonsense, fine] = yield* callAll(tools, [["pay", "nonsense"], ["fine"]])
      assert.include(paid, doubt)
      assert.include(nonsense, doubt)
      assert.strictEqual(fine, "fine")
      assert.deepStrictEqual(effects(), ["start", "pay", "nonsense", "start", "fine"])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  live(
    "that dies at every call is started again five times a minute, and then not called",
    Effect.gen(function* () {
      const { effects, tools } = yield* odd
      const results = yield* callAll(tools, Array(7).fill(["die"]))
      assert.isTrue(results.slice(0, 6).every((text) => text.includes(doubt)))
      assert.include(results[6], "die was not called: its server has gone 5 times within a minute")
      assert.notInclude(results[6], doubt)
      assert.deepStrictEqual(effects(), Array(6).fill(["start", "die"]).flat())
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  live(
    "that was started again gets no call of a tool whose description has changed",
    Effect.gen(function* () {
      const { effects, tools } = yield* odd
      const [before, died, after, fine] = yield* callAll(tools, [["changed"], ["die"], ["changed"], ["fine"]])
      assert.strictEqual(before, "changed")
      assert.include(died, doubt)
      assert.include(after, "changed was not called: its server was connected to again and has another tool")
      assert.strictEqual(fine, "fine")
      assert.deepStrictEqual(effects(), ["start", "changed", "die", "start", "fine"])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  live(
    "is not started again after the scope of its tools has closed",
    Effect.gen(function* () {
      const { effects, tools } = yield* Effect.scoped(
        Effect.map(odd, ({ effects, tools }) => ({ effects: effects(), tools }))
      )
      const [result] = yield* callAll(tools, [["fine"]])
      assert.include(result, "fine was not called: its connection was closed")
      assert.deepStrictEqual(effects, ["start"])
    }).pipe(Effect.provide(NodeServices.layer))
  )

  live(
    "leaves both calls in doubt when one of them ends the connection of the caller's own client",
    Effect.gen(function* () {
      const { command } = yield* odd
      const client = yield* McpClient.make({ name: "own", version: "1" }).pipe(
        Effect.provideServiceEffect(
          McpClient.Transport,
          McpClient.stdio({ command, protocol: McpProtocol.v2025_11_25, maxMessageBytes: 10_000 })
        )
      )
      const tools = yield* McpTools.make(client, { safety: "readOnly" })
      for (const text of yield* callAll(tools, [["pay", "long"]])) assert.include(text, doubt)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})

/** A server over HTTP that knows only its latest session. */
const overHttp = Effect.gen(function* () {
  const calls: Array<string> = []
  let session = 0
  const server = yield* ReplayServer.make(({ body, headers }) => {
    const json = (result: object, more: Readonly<Record<string, string>> = {}) => ({
      headers: { "content-type": "application/json", ...more },
      body: JSON.stringify({ jsonrpc: "2.0", id, ...result })
    })
    if (body === "") return { status: 200, body: "" }
    const { id, method, params } = JSON.parse(body)
    if (method === "initialize") {
      session++
      const { protocolVersion } = params
      return json(
        {
          result: { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "http", version: "1" } }
        },
        { "mcp-session-id": `s${session}` }
      )
    }
    if (headers["mcp-session-id"] !== `s${session}`) return { status: 404, body: "" }
    if (id === undefined) return { status: 202, body: "" }
    if (method === "tools/list") {
      const named = ["big", "fine", "busy", "wrong", "forget"].map((name) => ({
        name,
        inputSchema: { type: "object" }
      }))
      return json({ result: { tools: named } })
    }
    calls.push(params.name)
    switch (params.name) {
      case "big":
        return json({ result: { content: [{ type: "text", text: "x".repeat(30_000_000) }] } })
      case "busy":
        return { status: 502, body: "" }
      case "wrong":
        return json({ error: { code: -32603, message: "y".repeat(2_000) } })
      case "forget":
        session++
        return json({ result: { content: [{ type: "text", text: "forgot" }] } })
      default:
        return json({ result: { content: [{ type: "text", text: "fine" }] } })
    }
  })
  const options = { safety: "readOnly", maxResultLength: 1_000 } as const
  return { calls, tools: yield* McpTools.fromUrl(`${server.url}/mcp`, options) }
})

describe("an MCP server over HTTP", () => {
  live(
    "loses only its result of 30 MB, and the connection stays open",
    Effect.gen(function* () {
      const { calls, tools } = yield* overHttp
      const [fine, big, again] = yield* callAll(tools, [["fine", "big"], ["fine"]])
      assert.strictEqual(fine, "fine")
      assert.include(big, "larger than 16 MiB")
      assert.include(big, doubt)
      assert.strictEqual(again, "fine")
      assert.sameMembers(calls, ["fine", "big", "fine"])
    }).pipe(Effect.scoped, Effect.provide(FetchHttpClient.layer))
  )

  live(
    "leaves a call in doubt that it answers with an HTTP or JSON-RPC error",
    Effect.gen(function* () {
      const { tools } = yield* overHttp
      const [busy, wrong] = yield* callAll(tools, [["busy"], ["wrong"]])
      assert.include(busy, "502")
      assert.include(busy, doubt)
      assert.include(wrong, doubt)
      assert.isBelow(wrong!.length, 1_300)
    }).pipe(Effect.scoped, Effect.provide(FetchHttpClient.layer))
  )

  live(
    "that ended its session leaves the next call in doubt and gets a new session for the one after it",
    Effect.gen(function* () {
      const { calls, tools } = yield* overHttp
      const [forgot, refused, fine] = yield* callAll(tools, [["forget"], ["fine"], ["fine"]])
      assert.strictEqual(forgot, "forgot")
      assert.include(refused, doubt)
      assert.strictEqual(fine, "fine")
      assert.deepStrictEqual(calls, ["forget", "fine"])
    }).pipe(Effect.scoped, Effect.provide(FetchHttpClient.layer))
  )
})
