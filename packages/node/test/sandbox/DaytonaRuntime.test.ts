/**
 * What the origin's document on the runtime says of `DaytonaRuntime`, a title for each sentence.
 */
import { assert, describe, it } from "@effect/vitest"
import {
  Agent,
  createFermata,
  createRuntime,
  daytonaSandbox,
  type DaytonaSandboxOptions,
  type Decision,
  type Interruption,
  isDaytonaRuntime,
  localSandbox,
  reconfigureRuntime,
  runPrompt,
  Tool
} from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { apiKey, type DaytonaServer, daytonaServer } from "./daytonaServer.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

const Line = Schema.Struct({ line: Schema.String })

const shell = (safety: "readOnly" | "sideEffecting" = "readOnly") =>
  Tool.make("shell", {
    parameters: Line,
    safety,
    sandbox: true,
    handler: ({ line }, { sandbox, idempotencyKey }) =>
      Effect.map(sandbox.exec(line, { session: idempotencyKey }), ({ stdout }) => stdout)
  })

const call = (line: string) => ({ calls: [{ tool: "shell", arguments: { line } }] })

const sandboxesOf = (server: DaytonaServer, options: DaytonaSandboxOptions = {}) => ({
  sandbox: localSandbox(),
  sandboxes: { daytona: daytonaSandbox({ apiKey, apiUrl: server.apiUrl, ...options }) }
})

const approve = (request: Interruption.Interruption): Decision.DecisionInput => ({
  _tag: "approve",
  requestId: request.requestId,
  by: "ana",
  ...(request._tag === "approval" ? { digest: request.digest } : {})
})

const timeoutMs = 60_000

const only = (server: DaytonaServer) => [...server.boxes.values()][0]!

describe("DaytonaRuntime", () => {
  it.live(
    "is what createRuntime returns with the profile daytona, and its tools act in the remote sandbox; with another one they act here",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const { workdir } = yield* temporaryDirectory
        const agent = Agent.make("coder", { tools: [shell()] })
        const script = [call("pwd"), "done"]
        const options = {
          agent,
          ...sandboxesOf(server),
          profiles: [{ name: "plan" }],
          workingDirectory: workdir
        }
        const local = yield* Effect.provide(createRuntime(options), ScriptedModel.make(script).layer)
        assert.deepStrictEqual([local.kind, isDaytonaRuntime(local)], ["local", false])
        yield* runPrompt(local, { prompt: "go" })
        assert.strictEqual(server.boxes.size, 0)
        const remote = yield* Effect.provide(
          createRuntime({ ...options, profile: "daytona" }),
          ScriptedModel.make(script).layer
        )
        assert.deepStrictEqual([remote.kind, isDaytonaRuntime(remote)], ["remote", true])
        const done = yield* runPrompt(remote, { prompt: "go" })
        assert.strictEqual(done.status, "completed")
        assert.strictEqual(done.state.sandbox?.backend, "daytona")
        assert.strictEqual(server.boxes.size, 1)
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "acts in the directory of the option workingDirectory, which it creates",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const { top } = yield* temporaryDirectory
        const runtime = yield* Effect.provide(
          createRuntime({
            agent: Agent.make("coder", { tools: [shell()] }),
            ...sandboxesOf(server),
            profile: "daytona",
            workingDirectory: `${top}/new/place`
          }),
          ScriptedModel.make([call("pwd > out"), "done"]).layer
        )
        const done = yield* runPrompt(runtime, { prompt: "go" })
        assert.strictEqual(done.state.sandbox?.workdir, `${top}/new/place`)
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "creates the sandbox with the first call, reuses it in the later calls and runs, and keeps it when it is closed",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const agent = Agent.make("coder", { tools: [shell()] })
        const script = [call("echo 1 >> log"), call("echo 2 >> log"), "done", call("cat log"), "done"]
        const runtime = yield* Effect.provide(
          createRuntime({ agent, ...sandboxesOf(server), profile: "daytona" }),
          ScriptedModel.make(script).layer
        )
        assert.strictEqual(server.boxes.size, 0)
        const first = yield* runPrompt(runtime, { prompt: "go" })
        const second = yield* runPrompt(runtime, { state: first.state, prompt: "again" })
        assert.strictEqual(second.status, "completed")
        assert.strictEqual(server.boxes.size, 1)
        assert.include(JSON.stringify(second.state), "1\\n2\\n")
        yield* runtime.close("completed")
        assert.strictEqual(only(server).state, "started")
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "stops the sandbox when it is closed, if asked to, and the held run starts it again in another runtime",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const agent = Agent.make("coder", { tools: [shell("sideEffecting")] })
        const options = { agent, ...sandboxesOf(server, { onRelease: "stop" }), profile: "daytona" }
        const model = ScriptedModel.make([
          { calls: [...call("echo one > log").calls, ...call("cat log").calls] },
          "done"
        ])
        const held = yield* Effect.scoped(
          Effect.gen(function* () {
            const runtime = yield* createRuntime(options)
            const asked = yield* runPrompt(runtime, { prompt: "go" })
            if (asked.status !== "interrupted") return assert.fail(asked.status)
            const [first] = asked.interruptions
            return yield* runPrompt(runtime, {
              state: asked.state,
              decisions: [approve(first!)]
            })
          })
        ).pipe(Effect.provide(model.layer))
        if (held.status !== "interrupted") return assert.fail(held.status)
        assert.strictEqual(only(server).state, "stopped")
        const other = yield* Effect.provide(createRuntime(options), model.layer)
        const done = yield* runPrompt(other, {
          state: held.state,
          decisions: held.interruptions.map(approve)
        })
        assert.strictEqual(done.status, "completed")
        assert.include(JSON.stringify(done.state), "one\\n")
        assert.strictEqual(server.boxes.size, 1)
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "destroys the sandbox when it is closed, if asked to",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const runtime = yield* Effect.provide(
          createRuntime({
            agent: Agent.make("coder", { tools: [shell()] }),
            ...sandboxesOf(server, { onRelease: "destroy" }),
            profile: "daytona"
          }),
          ScriptedModel.make([call("true"), "done"]).layer
        )
        yield* runPrompt(runtime, { prompt: "go" })
        assert.strictEqual(server.boxes.size, 1)
        yield* runtime.close("completed")
        assert.strictEqual(server.boxes.size, 0)
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "is not switched to or from while it is live: that needs another runtime",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const options = { agent: Agent.make("coder"), ...sandboxesOf(server), profiles: [{ name: "plan" }] }
        const model = ScriptedModel.make([]).layer
        const local = yield* Effect.provide(createRuntime(options), model)
        const remote = yield* Effect.provide(createRuntime({ ...options, profile: "daytona" }), model)
        for (const [runtime, profile] of [
          [local, "daytona"],
          [remote, "default"],
          [remote, "plan"]
        ] as const) {
          const error = yield* Effect.flip(reconfigureRuntime(runtime, { profile }))
          assert.deepInclude({ ...error }, { _tag: "ReconfigureRefused", reason: "sandbox", to: profile })
        }
        yield* reconfigureRuntime(local, { profile: "plan" })
        assert.deepStrictEqual([isDaytonaRuntime(local), isDaytonaRuntime(remote)], [false, true])
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "exists in the Promise API, by the same option",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const result = yield* Effect.promise(async () => {
          await using fermata = await createFermata({
            agents: [Agent.make("coder", { tools: [shell()] })],
            model: ScriptedModel.make([call("echo hi"), "done"]).client,
            store: false,
            ...sandboxesOf(server),
            profile: "daytona"
          })
          return await fermata.runPrompt("coder", "go")
        })
        assert.strictEqual(result.status, "completed")
        assert.strictEqual(result.state.sandbox?.backend, "daytona")
      }).pipe(Effect.scoped),
    timeoutMs
  )
})
