import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/agent/Agent.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import { reconfigureRuntime } from "../../src/agent/reconfigureRuntime.ts"
import type { ToolUnavailable } from "../../src/domain/RunError.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import type { RunResult } from "../../src/run/RunResult.ts"
import { SandboxUnavailable } from "../../src/sandbox/SandboxError.ts"
import { SandboxProvider } from "../../src/sandbox/SandboxProvider.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { approve, call, events, expect, only, results, throughJson, watch } from "../helpers/Fixture.ts"
import { gated, SandboxBackend } from "../helpers/SandboxBackend.ts"

const Line = Schema.Struct({ id: Schema.String })

/** A tool that runs a line in the sandbox of the run. */
const shell = (safety: "readOnly" | "sideEffecting" = "readOnly", name = "shell") =>
  Tool.make(name, {
    parameters: Line,
    safety,
    sandbox: true,
    handler: ({ id }, { sandbox }) => Effect.map(sandbox.exec(id), ({ stdout }) => stdout)
  })

type Options = Partial<Omit<Parameters<typeof createRuntime<never, undefined>>[0], "agent">>

/** A program with this agent, closed with the test. */
const rebind = (
  agent: Agent.Agent<never, undefined>,
  model: ScriptedModel.ScriptedModel,
  options: Options = {}
) =>
  Effect.map(
    Effect.provideService(
      createRuntime({ cancelGrace: "20 millis", ...options, agent }),
      ModelClient,
      model.client
    ),
    (runtime) => ({ runtime, model })
  )

const bind = (
  agent: Agent.Agent<never, undefined>,
  script: ReadonlyArray<ScriptedModel.Script>,
  options: Options = {}
) => rebind(agent, ScriptedModel.make(script), options)

const start = (
  backend: SandboxBackend,
  agent: Agent.Agent<never, undefined>,
  script: ReadonlyArray<ScriptedModel.Script>,
  options: Options = {}
) => bind(agent, script, { sandbox: backend.provider(), ...options })

const problemOf = (result: RunResult<any>) =>
  expect(result, "interrupted").missing?.[0] as ToolUnavailable | undefined

describe("the sandbox of a run", () => {
  it.effect("is made for the first call that needs one, and shared by the later ones", () =>
    Effect.gen(function* () {
      const backend = new SandboxBackend()
      const agent = Agent.make("a", { tools: [shell()] })
      const seen = watch()
      const { runtime } = yield* start(
        backend,
        agent,
        [
          { calls: [call("shell", "one"), call("shell", "two")] },
          { calls: [call("shell", "three")] },
          "done"
        ],
        { workingDirectory: "/repo" }
      )
      const done = expect(
        yield* runPrompt(runtime, { prompt: "go" }, { onUpdate: seen.onUpdate }),
        "completed"
      )
      assert.deepStrictEqual(backend.lines, ["one", "two", "three"])
      const { runId, sessionId } = done
      assert.deepStrictEqual(backend.created, [{ runId, sessionId, workdir: "/repo" }])
      assert.deepStrictEqual(done.state.sandbox, { backend: "memory", id: "box1", workdir: "/repo" })
      const tags = events(seen.updates).map(({ _tag }) => _tag)
      assert.isBelow(tags.indexOf("sandbox.opened"), tags.indexOf("tool.started"))
      assert.strictEqual(tags.filter((tag) => tag === "sandbox.opened").length, 1)
    })
  )

  it.effect("is not made if no call needs one", () =>
    Effect.gen(function* () {
      const backend = new SandboxBackend()
      const { runtime } = yield* start(backend, Agent.make("a", { tools: [shell()] }), ["done"])
      const done = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.isUndefined(done.state.sandbox)
      assert.lengthOf(backend.created, 0)
    })
  )

  it.effect("is none in the context of a tool without the option", () =>
    Effect.gen(function* () {
      const backend = new SandboxBackend()
      const keys: Array<boolean> = []
      const plain = Tool.make("plain", {
        safety: "readOnly",
        handler: (_, context) => {
          keys.push("sandbox" in context)
        }
      })
      const agent = Agent.make("a", { tools: [shell(), plain] })
      const { runtime } = yield* start(backend, agent, [
        { calls: [call("shell", "one"), { tool: "plain" }] },
        "done"
      ])
      expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(keys, [false])
    })
  )

  it.effect("is shared with sub-agents, also with several that begin at once", () =>
    Effect.gen(function* () {
      const backend = new SandboxBackend()
      const waiting = yield* gated
      backend.gate = waiting.gate
      const left = Agent.make("left", { description: "left", tools: [shell()] })
      const right = Agent.make("right", { description: "right", tools: [shell()] })
      const agent = Agent.make("a", { subAgents: [left, right], tools: [shell()] })
      const { runtime } = yield* start(backend, agent, [
        {
          calls: [
            { tool: "left", arguments: { prompt: "go" } },
            { tool: "right", arguments: { prompt: "go" } }
          ]
        },
        { calls: [call("shell", "one")] },
        { calls: [call("shell", "two")] },
        "done",
        "done",
        { calls: [call("shell", "three")] },
        "done"
      ])
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }), {
        startImmediately: true
      })
      yield* waiting.reached
      yield* waiting.open
      const done = expect(yield* Fiber.join(running), "completed")
      assert.lengthOf(backend.created, 1)
      assert.strictEqual(backend.created[0]?.runId, done.runId)
      assert.deepStrictEqual(backend.lines.toSorted(), ["one", "three", "two"])
      assert.strictEqual(done.state.sandbox?.id, "box1")
    })
  )

  it.effect("is that of the session's next run", () =>
    Effect.gen(function* () {
      const backend = new SandboxBackend()
      const { runtime } = yield* start(backend, Agent.make("a", { tools: [shell()] }), [
        { calls: [call("shell", "one")] },
        "done",
        { calls: [call("shell", "two")] },
        "done"
      ])
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      const done = expect(yield* runPrompt(runtime, { state, prompt: "again" }), "completed")
      assert.lengthOf(backend.created, 1)
      assert.lengthOf(backend.attached, 0)
      assert.deepStrictEqual(backend.ran.get("box1"), ["one", "two"])
      assert.deepStrictEqual(done.state.sandbox, state.sandbox)
    })
  )

  it.effect("is attached to again, once, by a program that resumes the run", () =>
    Effect.gen(function* () {
      const backend = new SandboxBackend()
      const agent = Agent.make("a", { tools: [shell(), shell("sideEffecting", "write")] })
      const script = [
        { calls: [call("shell", "one")] },
        { calls: [call("write", "two"), call("write", "three")] },
        "done"
      ]
      const { model, runtime } = yield* start(backend, agent, script)
      const held = expect(yield* runPrompt(runtime, { prompt: "go" }), "interrupted")
      yield* runtime.close("completed")
      assert.deepStrictEqual(backend.released, ["box1"])
      assert.deepStrictEqual(backend.destroyed, [])
      const other = yield* rebind(agent, model, { sandbox: backend.provider() })
      const decisions = held.interruptions.map((request) => approve(request as never))
      const done = expect(
        yield* runPrompt(other.runtime, { state: throughJson(held.state), decisions }),
        "completed"
      )
      assert.deepStrictEqual(backend.ran.get("box1"), ["one", "two", "three"])
      assert.deepStrictEqual(backend.attached, ["box1"])
      assert.lengthOf(backend.created, 1)
      assert.deepStrictEqual(results(done.state).at(-1), "write completed: box1: one two three")
    })
  )

  it.effect("can come from the context of the program", () =>
    Effect.gen(function* () {
      const backend = new SandboxBackend()
      const { runtime } = yield* Effect.provideService(
        bind(Agent.make("a", { tools: [shell()] }), [{ calls: [call("shell", "one")] }, "done"]),
        SandboxProvider,
        backend.provider()
      )
      expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(backend.lines, ["one"])
    })
  )

  it.effect("is opened by a callback that uses it, and recorded with the request", () =>
    Effect.gen(function* () {
      const backend = new SandboxBackend()
      const write = Tool.make("write", {
        parameters: Line,
        sandbox: true,
        preview: ({ id }, { sandbox }) =>
          Effect.flatMap(sandbox, (box) => Effect.map(box.exec(`look-${id}`), ({ stdout }) => stdout)),
        handler: ({ id }, { sandbox }) => Effect.map(sandbox.exec(id), ({ stdout }) => stdout)
      })
      const agent = Agent.make("a", { tools: [write] })
      const { model, runtime } = yield* start(backend, agent, [{ calls: [call("write", "one")] }, "done"])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      assert.strictEqual(only(held, "approval").preview, "box1: look-one")
      assert.strictEqual(held.state.sandbox?.id, "box1")
      const other = yield* rebind(agent, model, { sandbox: backend.provider() })
      const decisions = [approve(only(held, "approval"))]
      expect(yield* runPrompt(other.runtime, { state: throughJson(held.state), decisions }), "completed")
      assert.deepStrictEqual(backend.ran.get("box1"), ["look-one", "one"])
    })
  )
})

describe("a call whose sandbox cannot be opened", () => {
  it.effect("waits for a provider, and acts nowhere without one", () =>
    Effect.gen(function* () {
      const backend = new SandboxBackend()
      const agent = Agent.make("a", { tools: [shell()] })
      const { model, runtime } = yield* bind(agent, [{ calls: [call("shell", "one")] }, "done"])
      const waiting = expect(yield* runPrompt(runtime, { prompt: "go" }), "interrupted")
      assert.include(problemOf(waiting), {
        _tag: "ToolUnavailable",
        reason: "withoutSandbox",
        isAllowed: true
      })
      assert.include(problemOf(waiting)!.message, "give it a sandbox provider")
      const { runtime: other } = yield* rebind(agent, model, { sandbox: backend.provider() })
      expect(yield* runPrompt(other, { state: throughJson(waiting.state) }), "completed")
      assert.deepStrictEqual(backend.lines, ["one"])
    })
  )

  it.effect("waits if the program's provider does not accept the run's sandbox", () =>
    Effect.gen(function* () {
      const backend = new SandboxBackend()
      const other = new SandboxBackend("elsewhere")
      const agent = Agent.make("a", { tools: [shell()] })
      const { model, runtime } = yield* start(backend, agent, [
        { calls: [call("shell", "one")] },
        "done",
        { calls: [call("shell", "two")] },
        "done"
      ])
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      const elsewhere = yield* rebind(agent, model, { sandbox: other.provider() })
      const waiting = yield* runPrompt(elsewhere.runtime, { state, prompt: "again" })
      assert.deepInclude(
        { ...problemOf(waiting) },
        { reason: "withoutSandbox", sandbox: { backend: "memory", id: "box1" } }
      )
      assert.lengthOf(other.created, 0)
      assert.lengthOf(other.attached, 0)
      const accepting = yield* rebind(agent, model, {
        sandbox: other.provider({ accepts: () => true, attach: backend.provider().attach })
      })
      expect(yield* runPrompt(accepting.runtime, { state: throughJson(waiting.state) }), "completed")
      assert.deepStrictEqual(backend.ran.get("box1"), ["one", "two"])
    })
  )

  it.effect("waits if the sandbox is lost, and runs once it is restored", () =>
    Effect.gen(function* () {
      const backend = new SandboxBackend()
      const agent = Agent.make("a", { tools: [shell(), shell("sideEffecting", "write")] })
      const { model, runtime } = yield* start(backend, agent, [
        { calls: [call("shell", "one")] },
        { calls: [call("write", "two")] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      backend.ran.delete("box1")
      const other = yield* rebind(agent, model, { sandbox: backend.provider() })
      const decisions = [approve(only(held, "approval"))]
      const waiting = yield* runPrompt(other.runtime, { state: held.state, decisions })
      const error = problemOf(waiting)
      assert.deepInclude(
        { ...error },
        {
          _tag: "ToolUnavailable",
          reason: "sandboxLost",
          sandbox: { backend: "memory", id: "box1" },
          problem: "it was destroyed",
          isAllowed: true
        }
      )
      assert.lengthOf(backend.created, 1)
      backend.ran.set("box1", [])
      expect(yield* runPrompt(other.runtime, { state: waiting.state }), "completed")
      assert.deepStrictEqual(backend.ran.get("box1"), ["two"])
    })
  )

  it.effect("keeps its approval if the sandbox is lost, also if its rule and its facts look into it", () =>
    Effect.gen(function* () {
      const backend = new SandboxBackend()
      const write = Tool.make("write", {
        parameters: Line,
        sandbox: true,
        needsApproval: (_, { sandbox }) => Effect.as(sandbox, true),
        facts: (_, { sandbox }) => Effect.map(sandbox, ({ target }) => target),
        handler: ({ id }, { sandbox }) => Effect.map(sandbox.exec(id), ({ stdout }) => stdout)
      })
      const agent = Agent.make("a", { tools: [write] })
      const { model, runtime } = yield* start(backend, agent, [{ calls: [call("write", "one")] }, "done"])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      backend.ran.delete("box1")
      const other = yield* rebind(agent, model, { sandbox: backend.provider() })
      const decisions = [approve(only(held, "approval"))]
      const waiting = yield* runPrompt(other.runtime, { state: held.state, decisions })
      assert.deepInclude({ ...problemOf(waiting) }, { _tag: "ToolUnavailable", reason: "sandboxLost" })
      assert.deepStrictEqual(expect(waiting, "interrupted").interruptions, [])
      backend.ran.set("box1", [])
      expect(yield* runPrompt(other.runtime, { state: waiting.state }), "completed")
      assert.deepStrictEqual(backend.ran.get("box1"), ["one"])
    })
  )

  it.effect("waits if the backend is not available, and runs when it is", () =>
    Effect.gen(function* () {
      const backend = new SandboxBackend()
      backend.gate = Effect.fail(
        SandboxUnavailable.make({ backend: "memory", problem: "the server is down", retryable: true })
      )
      const { runtime } = yield* start(backend, Agent.make("a", { tools: [shell()] }), [
        { calls: [call("shell", "one")] },
        "done"
      ])
      const waiting = yield* runPrompt(runtime, { prompt: "go" })
      const error = problemOf(waiting)
      assert.deepInclude(
        { ...error },
        { reason: "sandboxUnavailable", problem: "the server is down", retryable: true }
      )
      assert.include(error!.message, "Resume the run when it is.")
      backend.gate = Effect.void
      expect(yield* runPrompt(runtime, { state: waiting.state }), "completed")
      assert.deepStrictEqual(backend.lines, ["one"])
    })
  )

  it.effect("waits if the provider throws, or returns no sandbox", () =>
    Effect.gen(function* () {
      const agent = Agent.make("a", { tools: [shell()] })
      for (const create of [
        () => {
          throw new Error("broken")
        },
        () => Effect.die(new Error("broken")),
        () => Effect.succeed({} as never)
      ]) {
        const sandbox = new SandboxBackend().provider({ create })
        const { runtime } = yield* bind(agent, [{ calls: [call("shell", "one")] }], { sandbox })
        const error = problemOf(yield* runPrompt(runtime, { prompt: "go" }))
        assert.deepInclude({ ...error }, { reason: "sandboxUnavailable", retryable: false })
      }
    })
  )
})

describe("the provider of a runtime", () => {
  it.effect(
    "follows the capability profile that it was created with, and a live change to another is refused",
    () =>
      Effect.gen(function* () {
        const here = new SandboxBackend("here")
        const cloud = new SandboxBackend("cloud")
        const sandboxes = { daytona: cloud.provider({ isRemote: true }) }
        const agent = Agent.make("a", { tools: [shell()] })
        const script = [{ calls: [call("shell", "one")] }, "done"]
        const options = { sandbox: here.provider(), sandboxes, profiles: [{ name: "plan" }] }
        const { runtime } = yield* bind(agent, script, options)
        const remote = (yield* bind(agent, script, { ...options, profile: "daytona" })).runtime
        assert.deepStrictEqual([runtime.kind, remote.kind], ["local", "remote"])
        expect(yield* runPrompt(remote, { prompt: "go" }), "completed")
        assert.deepStrictEqual([here.lines, cloud.lines], [[], ["one"]])
        for (const [live, profile] of [
          [runtime, "daytona"],
          [remote, "plan"]
        ] as const) {
          const error = yield* Effect.flip(reconfigureRuntime(live, { profile }))
          assert.deepInclude(
            { ...error },
            { _tag: "ReconfigureRefused", reason: "sandbox", from: live.profileName, to: profile }
          )
          assert.include(error.message, "create a runtime with the profile")
        }
        yield* reconfigureRuntime(runtime, { profile: "plan" })
        yield* reconfigureRuntime(remote, { mode: "act" })
      })
  )

  it.effect("is refused if it is none, with what it takes", () =>
    Effect.gen(function* () {
      const agent = Agent.make("a")
      const error = yield* Effect.flip(
        bind(agent, [], { sandbox: {} as never, sandboxes: { "no name": new SandboxBackend().provider() } })
      )
      assert.include(error.message, "a sandbox provider: an object with create, attach and destroy")
      assert.include(error.message, `"sandboxes" takes`)
    })
  )
})
