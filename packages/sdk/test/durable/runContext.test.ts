import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/agent/Agent.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import { approve, bind, call, expect, only, probe, rebind, throughJson } from "../helpers/Fixture.ts"
import { runContextSuite } from "./runContextSuite.ts"

runContextSuite("memory", layerMemory)

const context = { tenant: "acme" }

describe("the context of a run", () => {
  it.effect("is in the state of a run without a store, and reaches the approval callback", () =>
    Effect.gen(function* () {
      const asked: Array<unknown> = []
      const write = probe("write")
      const { runtime } = yield* bind(
        Agent.make("a", { tools: [write.tool] }),
        [{ calls: [call("write", "1")] }, "done"],
        {
          approvalCallback: (_, about) => {
            asked.push(about)
            return undefined
          }
        }
      )
      const held = yield* runPrompt(runtime, { prompt: "go", context })
      const state = throughJson(held.state)
      expect(yield* runPrompt(runtime, { state, decisions: [approve(only(held, "approval"))] }), "completed")
      assert.deepStrictEqual(asked, [{ context }])
      assert.deepStrictEqual(write.contexts[0]?.context, context)
    })
  )

  it.effect("is that of a sub-agent in the background", () =>
    Effect.gen(function* () {
      const read = probe("read", { safety: "readOnly" })
      const clerk = Agent.make("clerk", { tools: [read.tool] })
      const { runtime } = yield* bind(Agent.make("a", { subAgents: [clerk], delegation: "delegate" }), [
        { calls: [{ tool: "delegate", arguments: { agent: "clerk", prompt: "read", background: true } }] },
        ({ agentPath }) => (agentPath.length > 1 ? { calls: [call("read", "1")] } : "waiting"),
        ({ agentPath }) => (agentPath.length > 1 ? { calls: [call("read", "1")] } : "waiting"),
        "done",
        "done",
        "done"
      ])
      expect(yield* runPrompt(runtime, { prompt: "go", context }), "completed")
      assert.deepStrictEqual(read.contexts[0]?.context, context)
    })
  )

  it.effect(
    "that a tool does not accept keeps a call waiting that the run makes after the tool has changed",
    () =>
      Effect.gen(function* () {
        const write = probe("write")
        const read = probe("read", { safety: "readOnly" })
        const stricter = probe("read", {
          safety: "readOnly",
          context: Schema.Struct({ region: Schema.String })
        })
        const { model, runtime } = yield* bind(Agent.make("a", { tools: [write.tool, read.tool] }), [
          { calls: [call("write", "1")] },
          { calls: [call("read", "2")] },
          "done"
        ])
        const held = yield* runPrompt(runtime, { prompt: "go", context })
        const decisions = [approve(only(held, "approval"))]
        const later = yield* rebind(Agent.make("a", { tools: [write.tool, stricter.tool] }), model)
        const { missing, state } = expect(
          yield* runPrompt(later.runtime, { state: held.state, decisions }),
          "interrupted"
        )
        assert.include(missing?.[0], { _tag: "ToolUnavailable", reason: "contextRefused" })
        assert.deepStrictEqual(stricter.ran, [])
        expect(yield* runPrompt(runtime, { state }), "completed")
        assert.deepStrictEqual(read.ran, ["2"])
      })
  )

  it.effect("is given to a run that a conductor dispatches", () =>
    Effect.gen(function* () {
      const read = probe("read", { safety: "readOnly" })
      const agent = Agent.make("a", { tools: [read.tool] })
      const { runtime } = yield* bind(agent, [{ calls: [call("read", "1")] }, "done"])
      const conductor = yield* Conductor.make()
      const handle = yield* conductor.dispatchStored(runtime, { prompt: "go", context })
      expect(yield* handle.wait, "completed")
      assert.deepStrictEqual(read.contexts[0]?.context, context)
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(layerMemory)))
  )
})
