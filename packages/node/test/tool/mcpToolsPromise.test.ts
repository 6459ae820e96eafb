import { once } from "node:events"
import { createServer } from "node:http"
import { join } from "node:path"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import {
  agent,
  approve,
  createFermata,
  isMcpServerError,
  isOptionsInvalid,
  mcpTools,
  Scrubber,
  Secrets,
  tool
} from "@fermata/node"
import type { McpServer, Tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import * as McpProtocol from "effect/ai/McpProtocol"
import * as McpServers from "effect/ai/McpServer"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import { sourceFlags } from "../../../../scripts/internal/sourceFlags.ts"
import { registrations } from "./mcpTools.ts"

const program = join(import.meta.dirname, "../programs/mcpServer.ts")
const server: McpServer = {
  command: process.execPath,
  args: [...sourceFlags, program, "2025-11-25"]
}

/** A server with one tool, which returns the server's environment, its working directory and its process id. */
const script = `
const reply = (id, result) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\\n")
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method } = JSON.parse(line)
  if (method === "initialize") reply(id, { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "env", version: "1" } })
  if (method === "tools/list") reply(id, { tools: [{ name: "env", inputSchema: { type: "object" } }] })
  if (method === "tools/call") reply(id, { content: [{ type: "text", text: JSON.stringify({ env: process.env, cwd: process.cwd(), pid: process.pid }) }] })
})
`
const reporting = { command: process.execPath, args: ["-e", script] }

const calling = (name: string, args: object = {}) =>
  ScriptedModel.make(({ turn }) =>
    turn === 1 ? { calls: [{ tool: name, arguments: args as never }] } : "done"
  ).client

const rejection = (promise: Promise<unknown>): Promise<any> =>
  promise.then(
    () => assert.fail("It was not refused."),
    (error: unknown) => error
  )

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Calls the tool `env` of the server, and returns what it reports. */
const environment = async (tools: ReadonlyArray<Tool.Tool>): Promise<any> => {
  const call = tools[0]!.options.handler({}, {} as never) as Effect.Effect<Record<string, [{ text: string }]>>
  const [content] = Object.values(await Effect.runPromise(call))
  return JSON.parse(content![0].text)
}

describe("a secret of an MCP server", () => {
  it("is resolved for the tools that state it, removed from the result, and known from the environment", async () => {
    const [given, token] = ["Env-7Hq2-token-91", "Arg-7Hq2-token-92"]
    const echo = script.replace("pid: process.pid", "got: JSON.parse(line).params.arguments")
    const tools = await mcpTools({
      command: process.execPath,
      args: ["-e", echo],
      env: { SERVICE_TOKEN: given },
      safety: "readOnly",
      secrets: ({ name }) => (name === "env" ? ["mcp/*"] : undefined)
    })
    const model = ScriptedModel.make([
      { calls: [{ tool: "env", arguments: { auth: "Bearer secret://{mcp/token}!" } }] },
      "done"
    ])
    const secrets = Secrets.memory({ "mcp/token": token })
    await using fermata = await createFermata({
      agents: [agent("a", { tools })],
      model: model.client,
      secrets,
      scrubber: Scrubber.none,
      store: ":memory:"
    })
    const { state } = await fermata.runPrompt("a", "go")
    const text = JSON.stringify([state, model.requests]).replaceAll("\\", "")
    assert.include(text, '"got":{"auth":"Bearer [REDACTED:mcp-token]!"}')
    assert.include(text, '"SERVICE_TOKEN":"[REDACTED:service-token]"')
    for (const value of [given, token]) assert.notInclude(text, value)
  })
})

describe("mcpTools", () => {
  it("starts a server, whose calls need approval, and ends it with the Fermata that uses its tools", async () => {
    const tools = await mcpTools(server)
    const fermata = await createFermata({
      agents: [agent("a", { tools })],
      model: calling("remove", { path: "/tmp/x" }),
      store: ":memory:"
    })
    const run = await fermata.runPrompt("a", "go")
    if (run.status !== "interrupted") return assert.fail(run.status)
    await fermata.decide(run.interruptions[0]!, approve())
    const done = await fermata.resume(run.runId)
    assert.strictEqual(done.status, "completed")
    assert.include(JSON.stringify(done.state), "removed /tmp/x")
    await fermata.close()
    const error = await rejection(
      createFermata({ agents: [agent("a", { tools })], model: calling("remove"), store: false })
    )
    assert.strictEqual(error._tag, "AgentDefinitionError")
    assert.include(error.message, "make the tool again")
  })

  it("ends the server when it is closed, once, and waits for its end", async () => {
    const tools = await mcpTools(reporting)
    const { pid } = await environment(tools)
    assert.isTrue(isAlive(pid))
    await tools.close()
    assert.isFalse(isAlive(pid))
    await tools.close()
  })

  it("gives the server its own environment variables and folder, and no secrets of this process", async () => {
    process.env["FERMATA_TEST_SECRET"] = "hunter2"
    await using tools = await mcpTools({ ...reporting, env: { TOKEN: "t", PATH: "/bin" }, cwd: "/" })
    const { cwd, env } = await environment(tools)
    delete process.env["FERMATA_TEST_SECRET"]
    assert.deepStrictEqual([env.TOKEN, env.PATH, env.FERMATA_TEST_SECRET, cwd], ["t", "/bin", undefined, "/"])
    assert.strictEqual(env.HOME, process.env["HOME"])
  })

  it("keeps the connection until the last Fermata that uses the tools is closed, also of a sub-agent", async () => {
    const tools = await mcpTools(reporting)
    const { pid } = await environment(tools)
    const make = () =>
      createFermata({
        agents: [agent("lead", { subAgents: [agent("a", { tools })] })],
        model: calling("env"),
        store: false
      })
    const [first, second] = await Promise.all([make(), make()])
    await first.close()
    assert.isTrue(isAlive(pid))
    await second.close()
    assert.isFalse(isAlive(pid))
  })

  it("is closed with a Fermata that was given its tools by `reconfigure`, and when a Fermata cannot be made", async () => {
    const tools = await mcpTools(reporting)
    const { pid } = await environment(tools)
    const fermata = await createFermata({ agents: [agent("a")], model: calling("env"), store: false })
    await fermata.reconfigure({ tools })
    await fermata.close()
    assert.isFalse(isAlive(pid))
    const others = await mcpTools(reporting)
    const other = await environment(others)
    const twice = tool("env", { handler: () => "" })
    const error = await rejection(
      createFermata({
        agents: [agent("a", { tools: [twice, ...others, twice] })],
        model: calling("env"),
        store: false
      })
    )
    assert.strictEqual(error._tag, "ToolNameTaken")
    assert.isFalse(isAlive(other.pid))
  })

  it("connects to a server by its URL, with headers", async () => {
    const asked: Array<unknown> = []
    const http = createServer((request) => void asked.push(request.headers["authorization"]))
    const serving = Layer.build(
      HttpRouter.serve(
        McpServers.layerHttp({
          name: "tested",
          version: "1.0.0",
          path: "/mcp",
          protocols: [McpProtocol.v2025_11_25],
          registrations
        })
      ).pipe(Layer.provideMerge(NodeHttpServer.layer(() => http, { port: 0 })))
    )
    await Effect.runPromise(
      Effect.scoped(
        Effect.gen(function* () {
          const context = yield* serving
          const address = yield* Effect.provideContext(HttpServer.HttpServer, context)
          const { port } = address.address as { readonly port: number }
          yield* Effect.promise(async () => {
            await using tools = await mcpTools({
              url: `http://127.0.0.1:${port}/mcp`,
              headers: { authorization: "Bearer t" },
              prefix: "x_",
              trustHints: true
            })
            const names = tools.map(({ name, safety }) => `${name} ${safety}`)
            assert.include(names, "x_add readOnly")
            assert.include(names, "x_remove sideEffecting")
          })
        })
      )
    )
    assert.isAbove(asked.length, 1)
    assert.isTrue(asked.every((header) => header === "Bearer t"))
  })

  it("rejects with `McpServerError` when the server does not start, ends at once, or cannot be reached", async () => {
    const closed = createServer().listen(0, "127.0.0.1")
    await once(closed, "listening")
    const { port } = closed.address() as { readonly port: number }
    await new Promise((resolve) => closed.close(resolve))
    const broken: ReadonlyArray<McpServer> = [
      { command: "there-is-no-such-program" },
      { command: process.execPath, args: ["-e", "process.exit(3)"] },
      { command: process.execPath, cwd: "/there/is/no/such/folder" },
      { url: `http://127.0.0.1:${port}/mcp` }
    ]
    for (const server of broken) {
      const error = await rejection(mcpTools({ ...server, timeout: "5 seconds" }))
      assert.isTrue(isMcpServerError(error), String(error))
    }
  })

  const misfits: ReadonlyArray<readonly [string, object | undefined, string]> = [
    ["no options", undefined, "plain object"],
    ["neither a command nor a URL", {}, 'either a "command" or a "url"'],
    ["a command and a URL", { ...server, url: "http://localhost" }, 'either a "command" or a "url"'],
    ["a misspelt key", { ...server, trustHint: true }, 'did you mean "trustHints"?'],
    ["arguments in one string", { command: "npx", args: "-y server" }, "a list of strings"],
    [
      "an environment that is no object of strings",
      { command: "npx", env: { PORT: 1 } },
      "an object of strings"
    ],
    ["a URL without a protocol", { url: "localhost:3000" }, "http"],
    ["headers of a command", { ...server, headers: {} }, '"headers" belongs to a "url"'],
    ["a folder of a URL", { url: "http://localhost", cwd: "/" }, '"cwd" belongs to a "command"']
  ]
  for (const [what, options, named] of misfits) {
    it(`refuses ${what}`, async () => {
      const error = await rejection(mcpTools(options as never))
      assert.isTrue(isOptionsInvalid(error), String(error))
      assert.include(error.message, named)
    })
  }

  it("refuses an option of the tools with a wrong value as `McpTools` does", async () => {
    const error = await rejection(mcpTools({ ...server, safety: "readonly" as never }))
    assert.isTrue(isMcpServerError(error))
    assert.include(error.message, "readOnly")
  })
})
