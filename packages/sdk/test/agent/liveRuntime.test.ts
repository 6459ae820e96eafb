import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import { reconfigureRuntime } from "../../src/agent/reconfigureRuntime.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { RuntimeHooks } from "../../src/agent/RuntimeHooks.ts"
import * as Id from "../../src/domain/Id.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as RunStore from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approvalOf, approve, call, expect, probe, safe } from "../helpers/Fixture.ts"

const profiles = [{ name: "plan", tools: { safety: ["readOnly" as const] } }]

/** A tool that waits for `gate`, and signals its start. */
const gated = Effect.gen(function* () {
  const began = yield* Deferred.make<void>()
  const gate = yield* Deferred.make<void>()
  const { tool } = safe("wait", {
    handler: () => Effect.andThen(Deferred.succeed(began, undefined), Deferred.await(gate))
  })
  return { began, gate, tool }
})

const runtimeOf = (
  agent: Agent.Agent<never, undefined>,
  script: ReadonlyArray<ScriptedModel.Script>,
  options: {
    readonly hooks?: RuntimeHooks
    readonly extensions?: ReadonlyArray<any>
    readonly profile?: string
  } = {}
) => {
  const model = ScriptedModel.make(script)
  return Effect.map(
    Effect.provideService(
      createRuntime({ agent, profiles, cancelGrace: "20 millis", ...options }),
      ModelClient,
      model.client
    ),
    (runtime) => ({ runtime: runtime as Runtime<undefined>, model })
  )
}

const runId = Id.RunId.make("run-1")

describe("a live runtime", () => {
  it.effect("refuses to start or resume runs after it is closed", () =>
    Effect.gen(function* () {
      const agent = Agent.make("a", { tools: [probe("write").tool] })
      const { runtime } = yield* runtimeOf(agent, [{ calls: [call("write", "1")] }, "done"])
      const held = yield* runPromptStored(runtime, { runId, prompt: "go" })
      yield* runtime.close("completed")
      for (const refused of [
        runPrompt(runtime, { prompt: "go" }),
        runPrompt(runtime, { state: held.state }),
        runPromptStored(runtime, { prompt: "go" }),
        runPromptStored(runtime, { runId })
      ]) {
        const error: { readonly _tag: string } = yield* Effect.flip(refused)
        assert.strictEqual(error._tag, "RuntimeClosed")
      }
      const store = yield* RunStore.RunStore
      assert.strictEqual((yield* store.list()).length, 1)
      assert.strictEqual((yield* store.head(runId)).status, "held")
    }).pipe(Effect.provide(RunStore.layerMemory))
  )

  it.effect("cancels its runs when it is closed", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const { began, tool } = yield* gated
      const { runtime } = yield* runtimeOf(
        Agent.make("a", { tools: [tool] }),
        [{ calls: [call("wait", "1")] }],
        {
          extensions: [{ name: "db", onClose: () => void log.push("closed") }]
        }
      )
      const running = yield* Effect.forkChild(
        Effect.tap(runPrompt(runtime, { prompt: "go", runId }), () => Effect.sync(() => log.push("ended"))),
        { startImmediately: true }
      )
      yield* Deferred.await(began)
      assert.deepStrictEqual(
        [...runtime.runs].map((run) => [run.runId, run.isMidTurn()]),
        [["run-1", true]]
      )
      yield* runtime.close("completed")
      const result = expect(yield* Fiber.join(running), "cancelled")
      assert.strictEqual(result.reason, "The runtime was closed.")
      assert.strictEqual(runtime.runs.size, 0)
      assert.deepStrictEqual([...log].sort(), ["closed", "ended"])
    })
  )

  it.effect("is reconfigured between turns, and not during a call or a model call", () =>
    Effect.gen(function* () {
      const { began, gate, tool } = yield* gated
      const { runtime } = yield* runtimeOf(Agent.make("a", { tools: [tool, probe("write").tool] }), [
        { calls: [call("wait", "1")] },
        { hang: true }
      ])
      const token = Cancellation.make()
      const asked = yield* Deferred.make<void>()
      const onUpdate = () => {
        if (runtime.runs.values().next().value?.isMidTurn() === false) Deferred.doneUnsafe(asked, Effect.void)
      }
      const running = yield* Effect.forkChild(
        runPrompt(runtime, { prompt: "go", runId }, { cancellation: token, onUpdate }),
        { startImmediately: true }
      )
      yield* Deferred.await(began)
      const error = yield* Effect.flip(reconfigureRuntime(runtime, { profile: "plan" }))
      assert.deepInclude({ ...error }, { _tag: "RuntimeBusy", runs: ["run-1"] })
      yield* Deferred.succeed(gate, undefined)
      // The turn has ended, and the next model call hangs.
      yield* Deferred.await(asked)
      yield* Effect.yieldNow
      const again = yield* Effect.flip(reconfigureRuntime(runtime, { profile: "plan" }))
      assert.strictEqual(again._tag, "RuntimeBusy")
      token.cancel("enough")
      yield* Fiber.join(running)
      yield* reconfigureRuntime(runtime, { profile: "plan" })
    })
  )

  it.effect("shows a working run its new tools at the next turn", () =>
    Effect.gen(function* () {
      let live: Runtime<any> | undefined
      const hooks: RuntimeHooks = {
        onTurn: ({ turn }) => {
          if (turn === 1 && live !== undefined)
            Effect.runSync(reconfigureRuntime(live, { profile: "default" }))
        }
      }
      const write = probe("write", { needsApproval: false })
      const agent = Agent.make("a", { tools: [safe("read").tool, write.tool] })
      const { runtime, model } = yield* runtimeOf(
        agent,
        [{ calls: [call("read", "1")] }, { calls: [call("write", "2")] }, "done"],
        { hooks, profile: "plan" }
      )
      live = runtime
      expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(
        model.requests.map(({ tools }) => tools.map(({ name }) => name)),
        [["read"], ["read", "write"], ["read", "write"]]
      )
      assert.deepStrictEqual(write.ran, ["2"])
    })
  )

  it.effect("notifies its hooks of every run, also of one that another runtime started", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const hooks: RuntimeHooks = {
        onToolCall: ({ status, tool }) => log.push(`${tool} ${status}`),
        onRunEnd: ({ status }) => log.push(status)
      }
      const agent = Agent.make("a", { tools: [probe("write").tool] })
      const script = [{ calls: [call("write", "1")] }]
      const { runtime: first } = yield* runtimeOf(agent, script)
      const { runtime: second } = yield* runtimeOf(agent, ["done"], { hooks })
      const held = yield* runPromptStored(first, { runId, prompt: "go" })
      assert.deepStrictEqual(log, [])
      yield* runPromptStored(second, { runId, decisions: [approve(approvalOf(held, "1"))] })
      assert.deepStrictEqual(log, ["write started", "write completed", "completed"])
      const { runtime: third } = yield* runtimeOf(agent, ["done"], { hooks })
      yield* runPromptStored(third, { prompt: "go" })
      assert.deepStrictEqual(log.slice(3), ["completed"])
    }).pipe(Effect.provide(RunStore.layerMemory))
  )

  it.effect("releases a run that is held, ended or interrupted", () =>
    Effect.gen(function* () {
      const { began, tool } = yield* gated
      const agent = Agent.make("a", { tools: [probe("write").tool, tool] })
      const { runtime } = yield* runtimeOf(agent, [
        { calls: [call("write", "1")] },
        "done",
        { calls: [call("wait", "2")] }
      ])
      yield* runPrompt(runtime, { prompt: "go" })
      assert.strictEqual(runtime.runs.size, 0)
      yield* runPrompt(runtime, { prompt: "go" })
      assert.strictEqual(runtime.runs.size, 0)
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }), {
        startImmediately: true
      })
      yield* Deferred.await(began)
      assert.strictEqual(runtime.runs.size, 1)
      yield* Fiber.interrupt(running)
      assert.strictEqual(runtime.runs.size, 0)
    })
  )
})
