import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/agent/Agent.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import { decide } from "../../src/domain/decide.ts"
import type { Decision } from "../../src/domain/Decision.ts"
import { evolve } from "../../src/domain/evolve.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { interruptions, type RunState } from "../../src/domain/RunState.ts"
import { checkStoredRun } from "../../src/durable/checkStoredRun.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { checkResume } from "../../src/run/checkResume.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import type { DataSchema } from "../../src/tool/DataSchema.ts"
import * as Tool from "../../src/tool/Tool.ts"
import {
  approvalOf,
  approve,
  bind,
  call,
  deny,
  edit,
  expect,
  only,
  probe,
  rebind,
  results,
  safe,
  throughJson
} from "../helpers/Fixture.ts"

const narrower = Tool.make("write", {
  parameters: Schema.Struct({ id: Schema.Literal("other") }) as unknown as DataSchema<unknown>,
  handler: () => "narrow"
})

/** A run held on `write 1`, its only call. */
const held = (options: Partial<Parameters<typeof Agent.make>[1] & object> = {}) =>
  Effect.gen(function* () {
    const write = probe("write")
    const agent = Agent.make("keeper", {
      instructions: "Be brief.",
      tools: [write.tool, safe("read").tool],
      ...options
    })
    const { runtime, model } = yield* bind(agent, [{ calls: [call("write", "1")] }, "done"])
    const result = yield* runPrompt(runtime, { prompt: "go" })
    return { write, model, runtime, result, state: throughJson(result.state) }
  })

/** A run whose call of `write` was approved with edited arguments, and which another request still holds. */
const edited = () =>
  Effect.gen(function* () {
    const first = probe("first")
    const write = probe("write")
    const { runtime, model } = yield* bind(Agent.make("keeper", { tools: [first.tool, write.tool] }), [
      { calls: [call("first", "0"), call("write", "1")] },
      "done"
    ])
    const held = yield* runPrompt(runtime, { prompt: "go" })
    const result = yield* runPrompt(runtime, {
      state: held.state,
      decisions: [approve(approvalOf(held, "1"), { arguments: { id: "2" } })]
    })
    return { first, write, model, result }
  })

/** The state after the approval of its only request. */
const decided = (state: RunState): RunState => {
  const decision = { ...approve(interruptions(state)[0]!), at: 1 } as Decision
  return Result.getOrThrow(decide(state, decision)).reduce((before, event) => evolve(before, event), state)
}

describe("checkResume", () => {
  it.effect("reports nothing for an unchanged program", () =>
    Effect.gen(function* () {
      const { state, write } = yield* held()
      const agent = Agent.make("keeper", {
        instructions: "Be brief.",
        tools: [safe("read").tool, write.tool]
      })
      assert.deepStrictEqual(yield* checkResume(state, [Agent.make("other"), agent]), {
        changes: [],
        blocking: []
      })
    })
  )

  it.effect("reports changes that do not block the resume", () =>
    Effect.gen(function* () {
      const { state, write } = yield* held()
      const report = yield* checkResume(state, [
        Agent.make("warden", {
          aliases: ["keeper"],
          instructions: "Be verbose.",
          tools: [
            write.tool,
            Tool.make("find", { handler: () => "" }),
            Tool.make("look", { handler: () => "", aliases: ["peek"] })
          ]
        })
      ])
      assert.deepStrictEqual(report.blocking, [])
      assert.deepStrictEqual(report.changes, [
        { _tag: "agentRenamed", from: "keeper", to: "warden" },
        { _tag: "instructionsChanged", agent: "warden" },
        { _tag: "toolRemoved", agent: "warden", tool: "read" },
        { _tag: "toolAdded", agent: "warden", tool: "find" },
        { _tag: "toolAdded", agent: "warden", tool: "look" }
      ])
    })
  )

  it.effect("finds a renamed tool by its alias", () =>
    Effect.gen(function* () {
      const { state } = yield* held()
      const report = yield* checkResume(state, [
        Agent.make("keeper", {
          instructions: "Be brief.",
          tools: [probe("save", { aliases: ["write"] }).tool, safe("read").tool]
        })
      ])
      assert.deepStrictEqual(report, { changes: [], blocking: [] })
    })
  )

  it.effect("reports a changed schema, and blocks when the open arguments no longer match it", () =>
    Effect.gen(function* () {
      const { state } = yield* held()
      const wider = Tool.make("write", {
        parameters: Schema.Struct({
          id: Schema.String,
          more: Schema.optionalKey(Schema.String)
        }) as unknown as DataSchema<unknown>,
        handler: () => ""
      })
      const withTool = (tool: Tool.Tool) =>
        checkResume(state, [
          Agent.make("keeper", { instructions: "Be brief.", tools: [tool, safe("read").tool] })
        ])
      const changed = [{ _tag: "toolChanged", agent: "keeper", tool: "write" }]
      assert.deepStrictEqual(yield* withTool(wider), { changes: changed, blocking: [] } as never)
      const report = yield* withTool(narrower)
      assert.deepStrictEqual<unknown>(report.changes, changed)
      assert.deepInclude(
        { ...report.blocking[0] },
        { _tag: "ToolUnavailable", tool: "write", reason: "schemaChanged" }
      )
    })
  )

  it.effect("blocks on a missing agent, and on a missing tool of an open call", () =>
    Effect.gen(function* () {
      const { state } = yield* held()
      const gone = yield* checkResume(state, [Agent.make("other")])
      assert.deepInclude({ ...gone.blocking[0] }, { _tag: "AgentNotFound", agent: "keeper" })
      const { blocking } = yield* checkResume(state, [Agent.make("keeper", { tools: [safe("read").tool] })])
      assert.deepInclude({ ...blocking[0] }, { _tag: "ToolUnavailable", tool: "write", reason: "missing" })
    })
  )

  it.effect("checks sub-agents", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const child = Agent.make("child", { tools: [write.tool] })
      const { runtime } = yield* bind(Agent.make("parent", { subAgents: [child] }), [
        { calls: [{ tool: "child", arguments: { prompt: "do" } }] },
        { calls: [call("write", "1")] }
      ])
      const { state } = yield* runPrompt(runtime, { prompt: "go" })
      const inside = yield* checkResume(state, [Agent.make("parent", { subAgents: [Agent.make("child")] })])
      assert.deepStrictEqual(
        inside.blocking.map(({ _tag }) => _tag),
        ["ToolUnavailable"]
      )
      const gone = yield* checkResume(state, [Agent.make("parent")])
      assert.deepInclude({ ...gone.blocking[0] }, { _tag: "AgentNotFound", agent: "child" })
    })
  )

  it.effect("reports a changed policy and changed limits, which the run does not follow", () =>
    Effect.gen(function* () {
      const { state, write } = yield* held({
        limits: { maxTurns: 5, maxTokens: 100 },
        policy: { mode: "ask" }
      })
      const tools = [write.tool, safe("read").tool]
      const report = yield* checkResume(state, [
        Agent.make("keeper", {
          instructions: "Be brief.",
          tools,
          limits: { maxTurns: 9 },
          policy: { mode: "all" }
        })
      ])
      assert.deepStrictEqual(report, {
        changes: [
          { _tag: "policyChanged", agent: "keeper", from: [{ mode: "ask" }], to: [{ mode: "all" }] },
          { _tag: "limitChanged", agent: "keeper", limit: "maxTurns", from: 5, to: 9 },
          { _tag: "limitChanged", agent: "keeper", limit: "maxTokens", from: 100 }
        ],
        blocking: []
      })
    })
  )

  it.effect("reports no policy or limit that the caller or a profile has set", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const agent = (maxTurns: number, mode: "ask" | "all") =>
        Agent.make("keeper", { tools: [write.tool], limits: { maxTurns }, policy: { mode } })
      const script = [{ calls: [call("write", "1")] }]
      const { runtime } = yield* bind(agent(5, "ask"), script)
      const prompt = { prompt: "go", limits: { maxTurns: 4 }, policy: { mode: "ask" } } as const
      const { state } = yield* runPrompt(runtime, prompt)
      const none = { changes: [], blocking: [] }
      assert.deepStrictEqual(yield* checkResume(throughJson(state), [agent(9, "all")]), none)
      const profiles = [{ name: "careful", policy: { mode: "ask" } }] as const
      const careful = yield* createRuntime({ agent: agent(5, "ask"), profile: "careful", profiles })
      const held = yield* runPrompt(careful, { prompt: "go" })
      assert.deepStrictEqual(yield* checkResume(throughJson(held.state), [agent(5, "all")]), none)
    }).pipe(Effect.scoped, Effect.provide(ScriptedModel.make([{ calls: [call("write", "1")] }]).layer))
  )

  it.effect("reports no limit of a sub-agent that its lead has reduced, and none after a handoff", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const child = Agent.make("child", { tools: [write.tool], limits: { maxTokens: 1_000_000 } })
      const lead = Agent.make("lead", { subAgents: [child], limits: { maxTokens: 90_000 } })
      const { runtime } = yield* bind(lead, [
        { calls: [{ tool: "child", arguments: { prompt: "do" } }] },
        { calls: [call("write", "1")] }
      ])
      const { state } = yield* runPrompt(runtime, { prompt: "go" })
      assert.deepStrictEqual((yield* checkResume(throughJson(state), [lead])).changes, [])
      const clerk = Agent.make("clerk", { tools: [write.tool], limits: { maxTurns: 3 } })
      const front = Agent.make("front", { handoffs: [clerk] })
      const other = yield* bind(front, [
        { calls: [{ tool: "transfer_to_clerk" }] },
        { calls: [call("write", "1")] }
      ])
      const taken = yield* runPrompt(other.runtime, { prompt: "go" })
      assert.deepStrictEqual((yield* checkResume(throughJson(taken.state), [front])).changes, [])
    })
  )

  it.effect("reports no budget that a decision has raised", () =>
    Effect.gen(function* () {
      const agent = Agent.make("keeper", { tools: [probe("write").tool], limits: { maxToolCalls: 1 } })
      const calls = [call("write", "1"), call("write", "2")]
      const { runtime } = yield* bind(agent, [{ calls }, "done"])
      const first = yield* runPromptStored(runtime, { prompt: "go", runId: "run" as RunId })
      const { requestId } = only(first, "limit")
      yield* decideStored([runtime], { _tag: "topUp", requestId, by: "ann", limit: 7 })
      expect(yield* runPromptStored(runtime, { runId: first.runId }), "interrupted")
      assert.deepStrictEqual((yield* checkStoredRun(first.runId, runtime.bound)).changes, [])
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )

  it.effect("reports a changed safety of the tool of an open call", () =>
    Effect.gen(function* () {
      const { state } = yield* held()
      const privileged = probe("write", { safety: "privileged" }).tool
      const { blocking, changes } = yield* checkResume(state, [
        Agent.make("keeper", { instructions: "Be brief.", tools: [privileged, safe("read").tool] })
      ])
      assert.deepStrictEqual(blocking, [])
      const change = { agent: "keeper", tool: "write", from: "sideEffecting", to: "privileged" }
      assert.deepStrictEqual<unknown>(changes, [{ _tag: "safetyChanged", ...change }])
    })
  )

  it.effect("does not block an ended run", () =>
    Effect.gen(function* () {
      const { state, runtime, result } = yield* held()
      const done = yield* runPrompt(runtime, { state, decisions: [approve(approvalOf(result, "1"))] })
      const { blocking } = yield* checkResume(expect(done, "completed").state, [Agent.make("keeper")])
      assert.deepStrictEqual(blocking, [])
    })
  )
})

describe("a run of a changed program", () => {
  it.effect("stays held with an error that names the missing tool or agent, until it is restored", () =>
    Effect.gen(function* () {
      const { state, result, model, write, runtime } = yield* held()
      const decisions = [approve(approvalOf(result, "1"))]
      const { runtime: without } = yield* rebind(Agent.make("keeper", { tools: [] }), model)
      const error = yield* Effect.flip(runPrompt(without, { state, decisions }))
      assert.deepInclude({ ...error }, { _tag: "ToolUnavailable", tool: "write", reason: "missing" })
      const { runtime: other } = yield* rebind(Agent.make("other"), model)
      const stranger = yield* Effect.flip(runPrompt(other, { state, decisions }))
      assert.deepInclude({ ...stranger }, { _tag: "AgentNotFound", agent: "keeper" })
      assert.strictEqual(model.requests.length, 1)
      expect(yield* runPrompt(runtime, { state, decisions }), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )

  it.effect("is not said to be deniable when its call was approved", () =>
    Effect.gen(function* () {
      const { state, result, model } = yield* held()
      const waiting = (yield* checkResume(state, [Agent.make("keeper")])).blocking[0]!
      assert.include(waiting.message, "an open request about the call can be decided without running it")
      const { runtime: without } = yield* rebind(Agent.make("keeper"), model)
      const decisions = [approve(approvalOf(result, "1"))]
      const error = yield* Effect.flip(runPrompt(without, { state, decisions }))
      assert.deepInclude({ ...error }, { _tag: "ToolUnavailable", isAllowed: true })
      assert.notMatch(error.message, /den(y|ied)|can be decided|open request/)
      assert.include(
        error.message,
        "The call was allowed already, and runs then. To prevent that, cancel the run."
      )
    })
  )

  it.effect("is said to be asked about again when its approved call no longer fits its tool", () =>
    Effect.gen(function* () {
      const { state } = yield* held()
      const waiting = (yield* checkResume(state, [Agent.make("keeper", { tools: [narrower] })])).blocking[0]!
      assert.include(waiting.message, "Decide its open request")
      const ready = decided(state)
      const { blocking } = yield* checkResume(ready, [Agent.make("keeper", { tools: [narrower] })])
      assert.notInclude(blocking[0]!.message, "Decide its open request")
      assert.include(blocking[0]!.message, "it is asked about again")
    })
  )

  it.effect("runs a renamed tool of a renamed agent by their aliases", () =>
    Effect.gen(function* () {
      const { state, result, model } = yield* held()
      const save = probe("save", { aliases: ["write"] })
      const agent = Agent.make("warden", { aliases: ["keeper"], tools: [save.tool] })
      const { runtime } = yield* rebind(agent, model)
      expect(yield* runPrompt(runtime, { state, decisions: [approve(approvalOf(result, "1"))] }), "completed")
      assert.deepStrictEqual(save.ran, ["1"])
    })
  )

  it.effect("accepts a denial of a call of a missing tool", () =>
    Effect.gen(function* () {
      const { state, result, model } = yield* held()
      const { runtime } = yield* rebind(Agent.make("keeper"), model)
      const done = yield* runPrompt(runtime, {
        state,
        decisions: [deny(approvalOf(result, "1"), { message: "no" })]
      })
      assert.deepStrictEqual(results(expect(done, "completed").state), ["write denied: no"])
    })
  )

  it.effect("accepts edited arguments that match the narrower schema", () =>
    Effect.gen(function* () {
      const { state, result, model } = yield* held()
      const { runtime } = yield* rebind(Agent.make("keeper", { tools: [narrower] }), model)
      const request = approvalOf(result, "1")
      const again = yield* runPrompt(runtime, { state, decisions: [approve(request)] })
      assert.include(only(again, "approval").reason, "The arguments do not fit")
      const done = yield* runPrompt(runtime, {
        state,
        decisions: [approve(request, { arguments: { id: "other" } })]
      })
      const said = edit({ id: "1" }, { id: "other" })
      assert.deepStrictEqual(results(expect(done, "completed").state), [`write completed: ${said}narrow`])
    })
  )

  it.effect(
    "opens its request again when edited arguments no longer match; an approval runs the original arguments",
    () =>
      Effect.gen(function* () {
        const { first, write, model, result } = yield* edited()
        const ran: Array<unknown> = []
        const strict = Tool.make("write", {
          parameters: Schema.Struct({ id: Schema.Literal("1") }) as unknown as DataSchema<{
            readonly id: string
          }>,
          handler: ({ id }) => {
            ran.push(id)
            return "ok"
          }
        })
        const { runtime: changed } = yield* rebind(
          Agent.make("keeper", { tools: [first.tool, strict] }),
          model
        )
        const again = yield* runPrompt(changed, {
          state: throughJson(result.state),
          decisions: [approve(approvalOf(result, "0"))]
        })
        const request = only(again, "approval")
        assert.include(request.reason, "The edited arguments do not fit")
        assert.deepStrictEqual(request.arguments, { id: "1" })
        const decisions = [approve(request)]
        expect(yield* runPrompt(changed, { state: throughJson(again.state), decisions }), "completed")
        assert.deepStrictEqual(ran, ["1"])
        assert.deepStrictEqual(write.ran, [])
      })
  )

  it.effect(
    "asks until an edit fits when neither the edited nor the proposed arguments match any longer",
    () =>
      Effect.gen(function* () {
        const { first, model, result } = yield* edited()
        const received: Array<unknown> = []
        const receives = ({ id }: { readonly id: string }) => {
          received.push(id)
          return "ok"
        }
        const strict = Tool.make("write", {
          parameters: Schema.Struct({ id: Schema.Literal("3") }) as unknown as DataSchema<{
            readonly id: string
          }>,
          preview: receives,
          risk: receives,
          handler: receives
        })
        const { runtime: changed } = yield* rebind(
          Agent.make("keeper", { tools: [first.tool, strict] }),
          model
        )
        const again = yield* runPrompt(changed, {
          state: throughJson(result.state),
          decisions: [approve(approvalOf(result, "0"))]
        })
        const request = only(again, "approval")
        assert.deepStrictEqual(request.arguments, { id: "1" })
        const plain = yield* runPrompt(changed, {
          state: throughJson(again.state),
          decisions: [approve(request)]
        })
        const repeated = only(plain, "approval")
        assert.include(repeated.reason, "The arguments do not fit")
        assert.deepStrictEqual(received, [])
        const decisions = [approve(repeated, { arguments: { id: "3" } })]
        const done = yield* runPrompt(changed, { state: throughJson(plain.state), decisions })
        const said = edit({ id: "1" }, { id: "3" })
        assert.deepStrictEqual(results(expect(done, "completed").state).at(-1), `write completed: ${said}ok`)
        assert.deepStrictEqual(received, ["3"])
      })
  )
})
