import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/agent/Agent.ts"
import { checkResume } from "../../src/agent/checkResume.ts"
import { runPrompt } from "../../src/agent/runPrompt.ts"
import {
  approvalOf,
  approve,
  assertValid,
  bind,
  call,
  expect,
  probe,
  results,
  throughJson,
  transcript
} from "./Fixture.ts"

const transfer = (to: string, reason?: string) => ({
  tool: `transfer_to_${to}`,
  arguments: reason === undefined ? {} : { reason }
})

describe("a handoff", () => {
  it.effect("gives the run to another agent, with its instructions, tools and output", () =>
    Effect.gen(function* () {
      const billing = Agent.make("billing", {
        instructions: "You are billing.",
        description: "Knows invoices",
        tools: [probe("refund", { needsApproval: false }).tool],
        output: Schema.Struct({ refunded: Schema.Number })
      })
      const desk = Agent.make("desk", { instructions: "You are the desk.", handoffs: [billing] })
      const { model, runtime } = yield* bind(desk, [
        { calls: [transfer("billing", "an invoice")] },
        { calls: [call("refund", "7")] },
        '{"refunded": 7}'
      ])
      const done = expect(yield* runPrompt(runtime, { prompt: "refund me" }), "completed")
      assert.deepStrictEqual<unknown>(done.output, { refunded: 7 })
      assert.deepStrictEqual(
        model.requests.map(({ agentPath, instructions }) => `${agentPath.join("/")}: ${instructions}`),
        ["desk: You are the desk.", "billing: You are billing.", "billing: You are billing."]
      )
      assert.deepStrictEqual(
        model.requests[0]?.tools.map(({ name }) => name),
        ["transfer_to_billing"]
      )
      assert.deepStrictEqual(results(done.state), [
        "transfer_to_billing completed: billing has the conversation now.",
        "refund completed: refund:7"
      ])
      assert.include(transcript(done.state)[0], "refund me")
      assertValid(done.state)
    })
  )

  it.effect("can be held behind, and is gone on with by the agent that took over", () =>
    Effect.gen(function* () {
      const refund = probe("refund")
      const billing = Agent.make("billing", { tools: [refund.tool] })
      const desk: Agent.Any = Agent.make("desk", { handoffs: [billing] })
      const { runtime } = yield* bind(desk, [
        { calls: [transfer("billing")] },
        { calls: [call("refund", "7")] },
        "refunded"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      assert.deepStrictEqual(approvalOf(held, "7").agentPath, ["billing"])
      const state = throughJson(held.state)
      assert.deepStrictEqual(yield* checkResume(state, [desk]), { changes: [], blocking: [] })
      const decisions = [approve(approvalOf(held, "7"), { arguments: { id: "8" } })]
      expect(yield* runPrompt(runtime, { state, decisions }), "completed")
      assert.deepStrictEqual(refund.ran, ["8"])
    })
  )

  it.effect("works in circles, and the calls of the answer it is in are settled first", () =>
    Effect.gen(function* () {
      const one: Agent.Any = Agent.make("one", { handoffs: () => [two] })
      const two: Agent.Any = Agent.make("two", { handoffs: () => [one] })
      const { model, runtime } = yield* bind(one, [
        { calls: [transfer("two")] },
        { calls: [transfer("one"), transfer("one")] },
        "back again"
      ])
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(
        model.requests.map(({ agentPath }) => agentPath.join()),
        ["one", "two", "one"]
      )
      assertValid(state)
    })
  )

  it.effect("keeps the policy that the run was started with", () =>
    Effect.gen(function* () {
      const refund = probe("refund")
      const desk = Agent.make("desk", { handoffs: [Agent.make("billing", { tools: [refund.tool] })] })
      const { runtime } = yield* bind(desk, [
        { calls: [transfer("billing")] },
        { calls: [call("refund", "7")] },
        "refused"
      ])
      expect(yield* runPrompt(runtime, { prompt: "go", policy: { mode: "none" } }), "completed")
      assert.deepStrictEqual(refund.ran, [])
    })
  )

  it.effect("between two agents of one name is refused when they are bound", () =>
    Effect.gen(function* () {
      const desk = Agent.make("desk", { handoffs: [Agent.make("x"), Agent.make("y", { aliases: ["x"] })] })
      const error = yield* Effect.flip(bind(desk, []))
      assert.strictEqual(error._tag, "AgentDefinitionError")
    })
  )
})
