/**
 * Limits that are invalid, or zero.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import type { RunId } from "../../src/domain/Id.ts"
import type { Limits } from "../../src/domain/Limits.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import type { AgentDefinitionError } from "../../src/tool/ToolError.ts"
import { bind, call, expect, probe, safe } from "../helpers/Fixture.ts"

const odd = [
  { maxTurns: Number.NaN },
  { maxTurns: -1 },
  { maxTokens: 1.5 },
  { maxWallMs: Number.POSITIVE_INFINITY },
  { maxCostUsd: Number.NaN },
  { toolConcurrency: "3" },
  { maxTurns: undefined }
] as unknown as ReadonlyArray<Partial<Limits>>

describe("a limit that is not a number from 0 on", () => {
  it.effect("is refused before anything happens, however the run is started", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      const { model, runtime } = yield* bind(Agent.make("a"), ["done", "more"])
      const ended = yield* runPromptStored(runtime, { prompt: "go", runId: "ended" as RunId })
      const conductor = yield* Conductor.make({ limits: { maxTurns: 8 } })
      for (const limits of odd) {
        const prompt = "go"
        const { runId, state } = ended
        for (const begun of [
          runPrompt(runtime, { prompt, limits }),
          runPrompt(runtime, { state, prompt, limits }),
          runPromptStored(runtime, { prompt, limits }),
          runPromptStored(runtime, { runId, message: prompt, limits }),
          forkRun(runtime, { runId, prompt, limits }),
          Effect.flatMap(conductor.dispatch(runtime, { prompt, limits }), (handle) => handle.done)
        ]) {
          const error = yield* Effect.flip(begun as Effect.Effect<unknown, Error, RunStore>)
          assert.include(error.message, "These limits cannot be used")
          assert.include(error.message, Object.keys(limits)[0]!)
        }
      }
      assert.strictEqual(model.requests.length, 1)
      assert.strictEqual((yield* store.list()).length, 1)
      // The refused prompts have used nothing of the shared budget.
      const handle = yield* conductor.dispatch(runtime, { prompt: "go" })
      expect(yield* handle.done, "completed")
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(layerMemory)))
  )

  it.effect("is refused in the definition of an agent", () =>
    Effect.gen(function* () {
      for (const limits of odd) {
        const defined = Effect.try({
          try: () => Agent.make("a", { limits }),
          catch: (error) => error as AgentDefinitionError
        })
        const error = yield* Effect.flip(Effect.flatMap(defined, (agent) => bind(agent, [])))
        assert.strictEqual(error._tag, "AgentDefinitionError")
        assert.include(error.message, "limits")
      }
    })
  )
})

describe("a concurrency of 0", () => {
  it.effect("runs tools one at a time", () =>
    Effect.gen(function* () {
      const write = probe("write", { needsApproval: false })
      const read = safe("read")
      const agent = Agent.make("a", { tools: [write.tool, read.tool], limits: { toolConcurrency: 0 } })
      const { runtime } = yield* bind(agent, [
        { calls: [call("write", "1"), call("read", "2"), call("read", "3")] },
        "done"
      ])
      expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual([...write.ran, ...read.ran], ["1", "2", "3"])
    })
  )

  it.effect("runs sub-agents one at a time", () =>
    Effect.gen(function* () {
      const child = Agent.make("child")
      const agent = Agent.make("lead", { subAgents: [child], limits: { agentConcurrency: 0 } })
      const ask = { tool: "child", arguments: { prompt: "do" } }
      const { runtime } = yield* bind(agent, [{ calls: [ask, ask] }, "one", "two", "done"])
      expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
    })
  )
})
