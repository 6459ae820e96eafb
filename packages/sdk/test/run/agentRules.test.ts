import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import type { ApprovalPolicy, Rule } from "../../src/domain/ApprovalPolicy.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import type { RunResult } from "../../src/run/RunResult.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { askUser } from "../../src/tool/Tool.ts"
import {
  approve,
  assertValid,
  deny,
  expect,
  only,
  probe,
  rebind,
  results,
  throughJson
} from "../helpers/Fixture.ts"

const helper = Agent.make("helper", { description: "Helps" })
const other = Agent.make("other")

const calls = {
  helper: { tool: "helper", arguments: { prompt: "do" } },
  delegate: { tool: "delegate", arguments: { agent: "helper", prompt: "do" } },
  background: { tool: "delegate", arguments: { agent: "helper", prompt: "do", background: true } },
  transfer: { tool: "transfer_to_other", arguments: {} },
  list: { tool: "list_agents", arguments: {} }
} as const

type Call = (typeof calls)[keyof typeof calls]

/** A model whose lead makes these calls in its first turns. Every other answer is the name of the agent. */
const script = (turns: ReadonlyArray<ReadonlyArray<ScriptedModel.ScriptedCall>>) => {
  let turn = 0
  return ScriptedModel.make(({ agentPath }) => {
    const name = agentPath.join("/")
    const calls = name === "lead" ? turns[turn++] : undefined
    return calls === undefined ? `answered by ${name}` : { calls: [...calls] }
  })
}

const leadOf = (rules: ReadonlyArray<Rule>, options: Agent.AgentOptions<any, undefined> = {}) =>
  Agent.make("lead", {
    subAgents: [helper],
    handoffs: [other],
    policy: { mode: "ask", rules },
    ...options
  })

const asked = (model: ScriptedModel.ScriptedModel) => [
  ...new Set(model.requests.map(({ agentPath }) => agentPath.join("/")))
]

const delegation = (call: Call) =>
  call.tool === "delegate" || call.tool === "list_agents" ? { delegation: "delegate" as const } : {}

/** Starts a run of a lead that makes one call, under a rule about it. */
const start = (call: Call, action: Rule["action"], options: Agent.AgentOptions<any, undefined> = {}) =>
  Effect.gen(function* () {
    const model = script([[call]])
    const rule = { tool: call.tool, action, message: "not today" }
    const lead = leadOf([action === "deny" ? rule : { tool: call.tool, action }], {
      ...delegation(call),
      ...options
    })
    const { runtime } = yield* rebind(lead, model)
    const result = yield* runPrompt(runtime, { prompt: "go" })
    const resume = (input: {
      readonly decisions?: ReadonlyArray<DecisionInput>
      readonly policy?: ApprovalPolicy
    }) => runPrompt(runtime, { state: throughJson(result.state), ...input })
    return { model, runtime, result: result as RunResult, resume }
  })

describe("A rule of a policy about an agent tool", () => {
  for (const [kind, call] of Object.entries(calls)) {
    it.effect(`denies the call, with the rule's message: ${kind}`, () =>
      Effect.gen(function* () {
        const { model, result } = yield* start(call, "deny")
        const { state } = expect(result, "completed")
        assert.deepStrictEqual(results(state), [`${call.tool} denied: not today`])
        assert.deepStrictEqual(asked(model), ["lead"])
        assertValid(state)
      })
    )

    it.effect(`asks before the call, which runs once it is approved: ${kind}`, () =>
      Effect.gen(function* () {
        const { model, result, resume } = yield* start(call, "ask")
        const request = only(result, "approval")
        assert.deepInclude(
          { ...request },
          { tool: call.tool, arguments: call.arguments, safety: "sideEffecting" }
        )
        assert.deepStrictEqual(asked(model), ["lead"])
        const { state } = expect(yield* resume({ decisions: [approve(request)] }), "completed")
        assert.include(results(state)[0], `${call.tool} completed: `)
        assert.strictEqual(asked(model).length, kind === "list" ? 1 : 2)
        assertValid(state)
      })
    )

    it.effect(`asks before the call, which a denial settles: ${kind}`, () =>
      Effect.gen(function* () {
        const { model, result, resume } = yield* start(call, "ask")
        const decisions = [deny(only(result, "approval"), { message: "no" })]
        const { state } = expect(yield* resume({ decisions }), "completed")
        assert.deepStrictEqual(results(state), [`${call.tool} denied: no`])
        assert.deepStrictEqual(asked(model), ["lead"])
      })
    )
  }

  it.effect("denies what it asks about in a run that is not interactive", () =>
    Effect.gen(function* () {
      const model = script([[calls.helper]])
      const { runtime } = yield* rebind(leadOf([{ tool: "helper", action: "ask" }]), model, {
        interactive: false
      })
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(results(state), [
        "helper denied: helper needs approval, and this run is not interactive. It was not called."
      ])
      assert.deepStrictEqual(asked(model), ["lead"])
    })
  )

  it.effect("denies an approved call if the policy denies it by the time it would start", () =>
    Effect.gen(function* () {
      const { model, result, runtime } = yield* start(calls.transfer, "ask")
      const policy: ApprovalPolicy = { mode: "ask", rules: [{ tool: "transfer_*", action: "deny" }] }
      const { state } = expect(
        yield* runPrompt(runtime, {
          state: { ...throughJson(result.state), policy },
          decisions: [approve(only(result, "approval"))]
        }),
        "completed"
      )
      assert.deepStrictEqual(results(state), [
        "transfer_to_other denied: The approval policy does not allow transfer_to_other."
      ])
      assert.deepStrictEqual(asked(model), ["lead"])
    })
  )

  it.effect("asks again, once, about an approved call whose definition a deploy has changed", () =>
    Effect.gen(function* () {
      const { model, result } = yield* start(calls.delegate, "ask")
      const lead = leadOf([{ tool: "delegate", action: "ask" }], {
        delegation: "delegate",
        subAgents: [helper, Agent.make("newcomer")]
      })
      const { runtime } = yield* rebind(lead, model)
      const resume = (before: RunResult, decisions: ReadonlyArray<DecisionInput>) =>
        runPrompt(runtime, { state: throughJson(before.state), decisions })
      const again = yield* resume(result, [approve(only(result, "approval"))])
      const request = only(again, "approval")
      assert.strictEqual(request.reason, "The definition of delegate has changed since.")
      assert.deepStrictEqual(asked(model), ["lead"])
      expect(yield* resume(again, [approve(request)]), "completed")
      assert.deepStrictEqual(asked(model), ["lead", "lead/helper"])
    })
  )

  it.effect("asks when a call was let through and needs approval by the time it starts", () =>
    Effect.gen(function* () {
      const wait = probe("wait")
      const model = script([[{ tool: "wait", arguments: { id: "1" } }, calls.transfer]])
      const { runtime } = yield* rebind(leadOf([], { tools: [wait.tool] }), model)
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const policy: ApprovalPolicy = { mode: "ask", rules: [{ tool: "transfer_*", action: "ask" }] }
      const asking = yield* runPrompt(runtime, {
        state: { ...throughJson(held.state), policy },
        decisions: [approve(only(held, "approval"))]
      })
      assert.deepStrictEqual(wait.ran, ["1"])
      assert.include(only(asking, "approval").reason, "transfer_to_other was let through without approval")
    })
  )

  it.effect("takes no edited arguments", () =>
    Effect.gen(function* () {
      const { model, result, resume } = yield* start(calls.helper, "ask")
      const request = only(result, "approval")
      const error = yield* Effect.flip(
        resume({ decisions: [approve(request, { arguments: { prompt: "else" } })] })
      )
      assert.deepInclude({ ...error }, { _tag: "EditedArgumentsInvalid", tool: "helper" })
      assert.include(error.message, "deny it")
      assert.deepStrictEqual(asked(model), ["lead"])
    })
  )

  it.effect("does not ask again about a call that a grant covers", () =>
    Effect.gen(function* () {
      const model = script([
        [calls.helper],
        [calls.helper],
        [{ tool: "helper", arguments: { prompt: "else" } }]
      ])
      const lead = leadOf([{ tool: "helper", action: "ask" }])
      const { runtime } = yield* rebind(lead, model)
      const first = yield* runPrompt(runtime, { prompt: "go" })
      const grant = { scope: "run", arguments: { prompt: { _tag: "equals", value: "do" } } } as const
      const held = yield* runPrompt(runtime, {
        state: throughJson(first.state),
        decisions: [approve(only(first, "approval"), { grant })]
      })
      assert.deepStrictEqual(only(held, "approval").arguments, { prompt: "else" })
      assert.strictEqual(model.requests.filter(({ agentPath }) => agentPath.length === 2).length, 2)
    })
  )

  it.effect("of an agent binds its sub-agents, too", () =>
    Effect.gen(function* () {
      const boss = Agent.make("boss", {
        subAgents: [leadOf([], { handoffs: [] })],
        policy: { mode: "ask", rules: [{ tool: "helper", action: "deny" }] }
      })
      const model = ScriptedModel.make(({ agentPath, turn }) => {
        const [name] = agentPath.slice(-1)
        if (turn > 1 || name === "helper") return "done"
        return { calls: [name === "boss" ? { tool: "lead", arguments: { prompt: "go" } } : calls.helper] }
      })
      const { runtime } = yield* rebind(boss, model)
      expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(asked(model), ["boss", "boss/lead"])
    })
  )

  it.effect("holds a handoff while the other calls of its answer run", () =>
    Effect.gen(function* () {
      const look = probe("look", { safety: "readOnly" })
      const model = script([[{ tool: "look", arguments: { id: "1" } }, calls.transfer]])
      const lead = leadOf([{ tool: "transfer_to_other", action: "ask" }], { tools: [look.tool] })
      const { runtime } = yield* rebind(lead, model)
      const held = yield* runPrompt(runtime, { prompt: "go" })
      assert.deepStrictEqual(look.ran, ["1"])
      const decisions = [approve(only(held, "approval"))]
      const { state } = expect(
        yield* runPrompt(runtime, { state: throughJson(held.state), decisions }),
        "completed"
      )
      assert.strictEqual(state.agent.name, "other")
    })
  )

  it.effect("leaves a question alone when it asks, and denies it when it denies", () =>
    Effect.gen(function* () {
      const under = (action: Rule["action"]) =>
        Effect.gen(function* () {
          const model = script([[{ tool: "ask_user", arguments: { question: "Which?" } }]])
          const lead = Agent.make("lead", {
            tools: [askUser],
            policy: { mode: "ask", rules: [{ tool: "ask_user", action }] }
          })
          const { runtime } = yield* rebind(lead, model)
          return yield* runPrompt(runtime, { prompt: "go" })
        })
      assert.strictEqual(only(yield* under("ask"), "question").question, "Which?")
      assert.deepStrictEqual(results(expect(yield* under("deny"), "completed").state), [
        "ask_user denied: The approval policy does not allow ask_user."
      ])
    })
  )
})

describe("The mode of a policy", () => {
  for (const mode of ["ask", "none"] as const) {
    it.effect(`does not apply to agent tools, which need no approval: ${mode}`, () =>
      Effect.gen(function* () {
        const model = script([[calls.helper], [calls.transfer]])
        const { runtime } = yield* rebind(leadOf([], { policy: { mode } }), model)
        expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
        assert.deepStrictEqual(asked(model), ["lead", "lead/helper", "other"])
      })
    )
  }
})
