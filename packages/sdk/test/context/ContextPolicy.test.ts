import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import * as ContextPolicy from "../../src/context/ContextPolicy.ts"
import * as Limits from "../../src/domain/Limits.ts"
import type { Message } from "../../src/domain/Message.ts"
import * as Tokenizer from "../../src/model/Tokenizer.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { bind, expect } from "../helpers/Fixture.ts"

const message: Message = {
  role: "user",
  sequence: 0,
  at: 0,
  content: [{ _tag: "text", text: "x".repeat(300) }]
}
const input = { instructions: "Be kind.", messages: [message], limits: Limits.defaults }

describe("the plain context policy", () => {
  it.effect("sends everything unchanged", () =>
    Effect.gen(function* () {
      const prepared = yield* ContextPolicy.everything.prepare(input)
      assert.deepStrictEqual(prepared, { instructions: "Be kind.", messages: [message] })
    })
  )

  it.effect("fails with the estimate and the limit when everything exceeds the budget", () =>
    Effect.gen(function* () {
      const limits = { ...Limits.defaults, maxContextTokens: 50 }
      const error = yield* Effect.flip(ContextPolicy.everything.prepare({ ...input, limits }))
      assert.strictEqual(error.limit, 50)
      assert.isAtLeast(error.tokens, 100)
    })
  )

  it("estimates at least one token for three characters", () => {
    assert.strictEqual(ContextPolicy.estimateTokens(""), 0)
    assert.strictEqual(ContextPolicy.estimateTokens("abcd"), 2)
    assert.isAtLeast(ContextPolicy.estimateMessages([message]), 100)
  })
})

describe("the context budget of a run", () => {
  it.effect("is counted with the provided tokenizer, tools included", () =>
    Effect.gen(function* () {
      const counted: Array<string> = []
      const count = (text: string) => {
        counted.push(text)
        return text.length
      }
      const tool = Tool.make("look", { description: "Looks", handler: () => "" })
      const agent = Agent.make("a", {
        instructions: "Be kind.",
        tools: [tool],
        limits: { maxContextTokens: 50 }
      })
      const { runtime } = yield* Effect.provideService(bind(agent, ["Hello."]), Tokenizer.Tokenizer, {
        count
      })
      const { error } = expect(yield* runPrompt(runtime, { prompt: "Hi" }), "error")
      assert.deepInclude({ ...error }, { _tag: "BudgetExceeded", budget: "context", limit: 50 })
      assert.includeMembers(counted, ["Be kind.", "Hi", "look", "Looks"])
    })
  )

  it.effect("is compared with the provider's count of the turn before", () =>
    Effect.gen(function* () {
      const tool = Tool.make("look", { safety: "readOnly", handler: () => "seen" })
      const agent = Agent.make("a", { tools: [tool], limits: { maxContextTokens: 1000 } })
      const calls = [{ tool: "look" }]
      const { model, runtime } = yield* bind(agent, [{ calls, usage: { inputTokens: 5000 } }, "done"])
      const { error } = expect(yield* runPrompt(runtime, { prompt: "Hi" }), "error")
      assert.deepInclude({ ...error }, { _tag: "BudgetExceeded", budget: "context", limit: 1000 })
      assert.strictEqual(model.requests.length, 1)
    })
  )
})
