import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/agent/Agent.ts"
import { messages } from "../../src/domain/RunState.ts"
import { QuotaExhausted } from "../../src/model/ModelError.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import type { DataSchema } from "../../src/tool/DataSchema.ts"
import {
  approvalOf,
  approve,
  assertValid,
  bind,
  call,
  deny,
  expect,
  only,
  probe,
  results,
  safe,
  throughJson,
  watch
} from "../helpers/Fixture.ts"

const delegate = (agent: string, prompt = "do") => ({ tool: agent, arguments: { prompt } })

describe("a sub-agent", () => {
  it.effect("is called as a tool, and its answer is the result", () =>
    Effect.gen(function* () {
      const child = Agent.make("child", {
        instructions: "You are the child.",
        description: "Looks things up"
      })
      const { runtime, model } = yield* bind(Agent.make("parent", { subAgents: [child] }), [
        { calls: [delegate("child", "find it")] },
        "found",
        "done"
      ])
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(results(state), ["child completed: found"])
      const [first, second] = model.requests
      assert.deepInclude(first?.tools[0], { name: "child", description: "Looks things up" })
      assert.strictEqual(second?.instructions, "You are the child.")
      assert.deepStrictEqual(second?.agentPath, ["parent", "child"])
      assert.strictEqual(JSON.stringify(second?.messages).includes("find it"), true)
      assert.strictEqual(second?.messages.length, 1)
      assertValid(state)
    })
  )

  it.effect("adds its usage, except its turns, to its parent's", () =>
    Effect.gen(function* () {
      const child = Agent.make("child", { tools: [safe().tool] })
      const { runtime } = yield* bind(Agent.make("parent", { subAgents: [child] }), [
        { calls: [delegate("child")] },
        { calls: [call("safe", "1")] },
        "found",
        "done"
      ])
      const { usage, state } = yield* runPrompt(runtime, { prompt: "go" })
      assert.deepInclude(usage, { requests: 4, turns: 2, inputTokens: 40, outputTokens: 20 })
      assert.strictEqual(state.sessionUsage.requests, 4)
    })
  )

  it.effect("can have an output schema, and its parent gets the JSON", () =>
    Effect.gen(function* () {
      const output = Schema.Struct({ n: Schema.Number }) as unknown as DataSchema<{ readonly n: number }>
      const child = Agent.make("child", { output })
      const { runtime } = yield* bind(Agent.make("parent", { subAgents: [child] }), [
        { calls: [delegate("child")] },
        "seven",
        '{"n":7}',
        "done"
      ])
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(results(state), ['child completed: {"n":7}'])
    })
  )

  it.effect("returns its failure as a result to its parent", () =>
    Effect.gen(function* () {
      const child = Agent.make("child")
      const { runtime } = yield* bind(Agent.make("parent", { subAgents: [child] }), [
        { calls: [delegate("child")] },
        { error: new QuotaExhausted({ description: "no money" }) },
        "done"
      ])
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.include(
        results(state)[0],
        "child failed: child failed. The model call failed (QuotaExhausted): no money"
      )
    })
  )

  it.effect("fails when it has used its own turns, and its parent continues", () =>
    Effect.gen(function* () {
      const child = Agent.make("child", { tools: [safe().tool], limits: { maxTurns: 1 } })
      const { runtime } = yield* bind(Agent.make("parent", { subAgents: [child] }), [
        { calls: [delegate("child")] },
        { calls: [call("safe", "1")] },
        "done"
      ])
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.include(results(state)[0], "The turns budget of 1 is used up")
    })
  )

  it.effect("returns its stop by a denial as a result to its parent", () =>
    Effect.gen(function* () {
      const { tool, ran } = probe("write")
      const child = Agent.make("child", { tools: [tool] })
      const { runtime } = yield* bind(Agent.make("parent", { subAgents: [child] }), [
        { calls: [delegate("child")] },
        { calls: [call("write", "1"), call("write", "2")] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const stop = deny(approvalOf(held, "1"), { then: "stop", message: "enough" })
      const { state } = expect(
        yield* runPrompt(runtime, { state: throughJson(held.state), decisions: [stop] }),
        "completed"
      )
      assert.deepStrictEqual(results(state), ["child cancelled: child was stopped: enough."])
      assert.deepStrictEqual(ran, [])
      const late = yield* Effect.flip(
        runPrompt(runtime, { state, prompt: "x", decisions: [approve(approvalOf(held, "2"))] })
      )
      assert.strictEqual(late._tag, "RequestSuperseded")
    })
  )

  it.effect("runs alone between side effects, in the order of the answer", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const write = probe("write", {
        needsApproval: false,
        handler: ({ id }) => {
          log.push(id)
          return id
        }
      })
      const child = Agent.make("child", { tools: [write.tool] })
      const { runtime } = yield* bind(Agent.make("parent", { tools: [write.tool], subAgents: [child] }), [
        { calls: [call("write", "1"), delegate("child"), call("write", "3")] },
        { calls: [call("write", "2")] },
        "found",
        "done"
      ])
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(log, ["1", "2", "3"])
      assert.deepStrictEqual(results(state), [
        "write completed: 1",
        "child completed: found",
        "write completed: 3"
      ])
    })
  )
})

describe("the requests of sub-agents two levels down", () => {
  const tree = () =>
    Effect.gen(function* () {
      const write = probe("write")
      const read = safe("read")
      const inner = Agent.make("inner", { tools: [read.tool, write.tool] })
      const middle = Agent.make("middle", { tools: [write.tool], subAgents: [inner] })
      const outer = Agent.make("outer", { tools: [write.tool], subAgents: [middle] })
      const { runtime, model } = yield* bind(outer, [
        { calls: [call("write", "outer-1"), delegate("middle")] },
        { calls: [delegate("inner"), call("write", "middle-1")] },
        { calls: [call("read", "inner-0"), call("write", "inner-1"), call("write", "inner-2")] },
        "inner done",
        "middle done",
        "done"
      ])
      return { runtime, model, write, read }
    })

  it.effect("reach the root with their agent path, and each decision resumes its own agent", () =>
    Effect.gen(function* () {
      const { runtime, model, write, read } = yield* tree()
      const first = yield* runPrompt(runtime, { prompt: "go" })
      assert.deepStrictEqual(only(first, "approval").agentPath, ["outer"])

      const second = expect(
        yield* runPrompt(runtime, {
          state: throughJson(first.state),
          decisions: [approve(approvalOf(first, "outer-1"))]
        }),
        "interrupted"
      )
      assert.deepStrictEqual(
        second.interruptions.map((request) => [
          request.agentPath.join("/"),
          "tool" in request && request.arguments
        ]),
        [
          ["outer/middle", { id: "middle-1" }],
          ["outer/middle/inner", { id: "inner-1" }],
          ["outer/middle/inner", { id: "inner-2" }]
        ]
      )
      assert.deepStrictEqual(read.ran, ["inner-0"])
      assert.strictEqual(model.requests.length, 3)

      const { tags, onUpdate } = watch()
      const third = yield* runPrompt(
        runtime,
        { state: throughJson(second.state), decisions: [approve(approvalOf(second, "inner-2"))] },
        { onUpdate }
      )
      assert.deepStrictEqual(write.ran, ["outer-1"])
      assert.notInclude(tags(), "model.answered")

      const fourth = yield* runPrompt(runtime, {
        state: throughJson(third.state),
        decisions: [deny(approvalOf(third, "inner-1"), { message: "no" })]
      })
      assert.deepStrictEqual(write.ran, ["outer-1", "inner-2"])
      assert.deepStrictEqual(only(fourth, "approval").agentPath, ["outer", "middle"])
      assert.strictEqual(model.requests.length, 4)

      const done = expect(
        yield* runPrompt(runtime, {
          state: throughJson(fourth.state),
          decisions: [approve(approvalOf(fourth, "middle-1"))]
        }),
        "completed"
      )
      assert.deepStrictEqual(write.ran, ["outer-1", "inner-2", "middle-1"])
      assert.deepStrictEqual(read.ran, ["inner-0"])
      assert.strictEqual(model.requests.length, 6)
      assertValid(done.state)
      assert.deepStrictEqual(
        messages(done.state).map(({ role }) => role),
        ["user", "assistant", "tool", "tool", "assistant"]
      )
      assert.deepInclude(done.usage, { requests: 6, turns: 2 })
    })
  )

  it.effect("take edited arguments that match the sub-agent's tool", () =>
    Effect.gen(function* () {
      const { runtime, write } = yield* tree()
      const first = yield* runPrompt(runtime, { prompt: "go" })
      const second = yield* runPrompt(runtime, {
        state: first.state,
        decisions: [approve(approvalOf(first, "outer-1"))]
      })
      const request = approvalOf(second, "inner-1")
      const error = yield* Effect.flip(
        runPrompt(runtime, { state: second.state, decisions: [approve(request, { arguments: { id: 1 } })] })
      )
      assert.strictEqual(error._tag, "EditedArgumentsInvalid")
      yield* runPrompt(runtime, {
        state: second.state,
        decisions: [approve(request, { arguments: { id: "edited" } })]
      })
      assert.deepStrictEqual(write.ran, ["outer-1", "edited"])
    })
  )
})
