import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import { sha256Of } from "../../src/domain/internal/sha256.ts"
import { messages } from "../../src/domain/RunState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as RecallTool from "../../src/tool/RecallTool.ts"
import { fileOf, filesIn, imageOf, stored } from "../durable/attachmentsSuite.ts"
import { approve, bind, call, expect, only, probe, results, safe, throughJson } from "../helpers/Fixture.ts"

const image = imageOf(3000)
const recall = { tool: "recall", arguments: { id: sha256Of(image).slice(0, 16) } }

describe("a run without a store", () => {
  it.effect("keeps the bytes of files in its state, and sends them with their own prompt only", () =>
    Effect.gen(function* () {
      const { model, runtime } = yield* bind(Agent.make("eye", { tools: [RecallTool.make()] }), [
        "A cat.",
        { calls: [recall] },
        "A cat."
      ])
      const first = yield* runPrompt(runtime, { prompt: [fileOf(image)] })
      assert.deepStrictEqual(filesIn(messages(throughJson(first.state))), [fileOf(image)])
      expect(yield* runPrompt(runtime, { state: throughJson(first.state), prompt: "And now?" }), "completed")
      assert.deepStrictEqual(
        model.requests.map((request) => filesIn(request.messages).length),
        [1, 0, 1]
      )
      assert.deepStrictEqual(filesIn(model.requests[2]?.messages), [fileOf(image)])
    })
  )

  it.effect("loses what is cut out of a result, and shows no id", () =>
    Effect.gen(function* () {
      const log = safe("log", { maxResultLength: 10, handler: () => "x".repeat(5000) })
      const { runtime } = yield* bind(Agent.make("a", { tools: [log.tool, RecallTool.make()] }), [
        { calls: [call("log", "1")] },
        "Read."
      ])
      const { state } = expect(yield* runPrompt(runtime, { prompt: "Read" }), "completed")
      assert.deepStrictEqual(results(state), [
        "log completed: xxxxx\n[… 4,990 of 5,000 characters are missing here …]\nxxxxx"
      ])
    })
  )

  it.effect("refuses a prompt that refers to a content of a store", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("eye"), [])
      const error = yield* Effect.flip(runPrompt(runtime, { prompt: [stored(image)] }))
      assert.include(error.message, "give the file with its bytes")
    })
  )

  it.effect("fails with ContentMissing, and keeps its state, if its prompt has a file in a store", () =>
    Effect.gen(function* () {
      const pay = probe("pay")
      const agent = Agent.make("eye", { tools: [pay.tool] })
      const { model, runtime } = yield* bind(agent, [{ calls: [call("pay", "1")] }])
      const prompt = [fileOf(image, { name: "cat.png" })]
      const held = yield* Effect.provide(runPromptStored(runtime, { prompt }), layerMemory)
      const decisions = [approve(only(held, "approval"))]
      const failed = expect(yield* runPrompt(runtime, { state: held.state, decisions }), "error")
      assert.deepInclude(failed.error, { _tag: "ContentMissing", file: "cat.png", problem: "noStore" })
      assert.deepStrictEqual(results(failed.state), ["pay completed: pay:1"])
      assert.strictEqual(model.requests.length, 1)
    })
  )
})
