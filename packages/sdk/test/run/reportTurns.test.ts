import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunId } from "../../src/domain/Id.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import {
  approve,
  assertValid,
  call,
  expect,
  only,
  probe,
  rebind,
  safe,
  throughJson
} from "../helpers/Fixture.ts"

const delegate = { tool: "delegate", arguments: { agent: "scout", prompt: "look", background: true } }
const delegates = (count: number) => ({ calls: Array.from({ length: count }, () => delegate) })

const lead = (options: Agent.AgentOptions<any, undefined> = {}) =>
  Agent.make("lead", { ...options, subAgents: [Agent.make("scout")], delegation: "delegate" })

/** A model whose scouts answer one after the other, a second apart. */
const team = (answer: (request: ModelRequest) => ScriptedModel.ScriptedAnswer | string) => {
  let scouts = 0
  return ScriptedModel.make((request) =>
    request.agentPath.at(-1) === "scout" ? { text: "seen", delay: `${++scouts} seconds` } : answer(request)
  )
}

/** Runs the effect while a minute passes, second by second. */
const inAMinute = Effect.fnUntraced(function* <A, E, R>(effect: Effect.Effect<A, E, R>) {
  const fiber = yield* Effect.forkChild(effect, { startImmediately: true })
  for (let second = 0; second < 60; second++) yield* TestClock.adjust("1 second")
  return yield* Fiber.join(fiber)
})

/** Delegates to so many scouts, and then says something at each report. */
const reading = (count: number) => (request: ModelRequest) =>
  request.turn === 1 ? delegates(count) : `I have read ${request.turn}.`

const turnsOf = ({ reportTurns, usage }: RunState) => ({ all: usage.turns, reportTurns })

describe("a turn that only takes reports of sub-agents", () => {
  it.effect("does not count against the default maxTurns", () =>
    Effect.gen(function* () {
      const { runtime } = yield* rebind(lead(), team(reading(20)))
      const { state } = expect(yield* inAMinute(runPrompt(runtime, { prompt: "go" })), "completed")
      assert.deepStrictEqual(turnsOf(state), { all: 22, reportTurns: 20 })
      assertValid(state)
    })
  )

  it.effect("does not count if it waits for the next sub-agent", () =>
    Effect.gen(function* () {
      const model = team(({ turn }) => {
        if (turn === 1) return delegates(12)
        const agentRuns = [`run-1.t1.${turn - 1}`]
        return turn <= 13
          ? { calls: [{ tool: "wait_for_agent", arguments: { agentRuns } }] }
          : "All are back."
      })
      const { runtime } = yield* rebind(lead(), model)
      const run = runPrompt(runtime, { prompt: "go", runId: "run-1" as RunId })
      const { state } = expect(yield* inAMinute(run), "completed")
      assert.deepStrictEqual(turnsOf(state), { all: 14, reportTurns: 12 })
    })
  )

  it.effect("counts against a maxTurns of the agent or of the caller, also if that is 8", () =>
    Effect.gen(function* () {
      const limits = { maxTurns: 8 }
      const ofAgent = yield* rebind(lead({ limits }), team(reading(20)))
      const failed = expect(yield* inAMinute(runPrompt(ofAgent.runtime, { prompt: "go" })), "error")
      assert.include(failed.error.message, "turns budget of 8")
      assert.deepStrictEqual(turnsOf(failed.state), { all: 8, reportTurns: undefined })

      const ofCaller = yield* rebind(lead(), team(reading(20)))
      const limited = yield* inAMinute(runPrompt(ofCaller.runtime, { prompt: "go", limits }))
      assert.deepStrictEqual(turnsOf(expect(limited, "error").state), { all: 8, reportTurns: undefined })
    })
  )

  it.effect("counts if its response calls a tool, so that a lead that delegates again and again ends", () =>
    Effect.gen(function* () {
      const { runtime } = yield* rebind(
        lead(),
        team(() => delegates(2))
      )
      const { error, state } = expect(yield* inAMinute(runPrompt(runtime, { prompt: "go" })), "error")
      assert.include(error.message, "turns budget of 8")
      assert.deepStrictEqual(turnsOf(state), { all: 8, reportTurns: 0 })
    })
  )

  it.effect("counts without a new report, so that a lead that waits for ever ends", () =>
    Effect.gen(function* () {
      const wait = { calls: [{ tool: "wait_for_agent" }] }
      const { runtime } = yield* rebind(
        lead(),
        team(({ turn }) => (turn === 1 ? delegates(3) : wait))
      )
      const { error, state } = expect(yield* inAMinute(runPrompt(runtime, { prompt: "go" })), "error")
      assert.include(error.message, "turns budget of 8")
      assert.deepStrictEqual(turnsOf(state), { all: 9, reportTurns: 1 })
    })
  )

  it.effect("counts if the model was also called with a message or with another result", () =>
    Effect.gen(function* () {
      const look = safe("look", { handler: () => Effect.as(Effect.sleep("5 seconds"), "a page") })
      const model = team(({ turn }) => {
        if (turn === 1) return delegates(1)
        return turn === 2 ? { calls: [call("look", "1")] } : "Seen."
      })
      const { runtime } = yield* rebind(lead({ tools: [look.tool] }), model)
      const { state } = expect(yield* inAMinute(runPrompt(runtime, { prompt: "go" })), "completed")
      assert.deepStrictEqual(turnsOf(state), { all: 3, reportTurns: 0 })
    })
  )

  it.effect("counts if the user sends a message that reads like a report", () =>
    Effect.gen(function* () {
      const { runtime } = yield* rebind(lead(), team(reading(2)))
      const runId = "run-1" as RunId
      const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }), {
        startImmediately: true
      })
      yield* TestClock.adjust("1500 millis")
      yield* sendMessage(runId, "The agent scout (run-1.t1.1) has finished: seen")
      yield* TestClock.adjust("10 seconds")
      const { state } = expect(yield* Fiber.join(running), "completed")
      assert.deepStrictEqual(turnsOf(state), { all: 5, reportTurns: 2 })
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("does not count in a run that was resumed, in a fork and in the session's next run", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const model = team(({ turn }) =>
        turn === 1 ? { calls: [...delegates(12).calls, call("write", "1")] } : `I have read ${turn}.`
      )
      const { runtime } = yield* rebind(lead({ tools: [write.tool] }), model)
      const held = yield* inAMinute(runPromptStored(runtime, { prompt: "go" }))
      const decisions = [approve(only(held, "approval"))]
      const { runId } = held
      expect(yield* inAMinute(runPromptStored(runtime, { runId, decisions })), "completed")
      const policy = { mode: "all" } as const
      const forked = yield* inAMinute(forkRun(runtime, { runId, prompt: "Again.", policy }))
      assert.isAbove(expect(forked, "completed").state.reportTurns ?? 0, 8)
      const next = yield* inAMinute(runPromptStored(runtime, { runId, message: "Again.", policy }))
      assert.isAbove(expect(next, "completed").state.reportTurns ?? 0, 8)
      const limits = { maxTurns: 8 }
      const limited = yield* inAMinute(forkRun(runtime, { runId, prompt: "Again.", policy, limits }))
      assert.strictEqual(only(limited, "limit").spent, 8)
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("does not count after a resume from the state, and after a top-up", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const model = team(({ turn }) => {
        if (turn === 1) return delegates(12)
        return turn > 10 && turn < 20 ? { calls: [call("write", String(turn))] } : `I have read ${turn}.`
      })
      const { runtime } = yield* rebind(lead({ tools: [write.tool], policy: { mode: "all" } }), model)
      const held = yield* inAMinute(runPromptStored(runtime, { prompt: "go" }))
      const request = only(held, "limit")
      assert.deepStrictEqual([request.limit, request.spent], [8, 8])
      const { runId } = held
      const decisions = [{ _tag: "topUp", requestId: request.requestId, by: "ann", limit: 12 } as const]
      const state = throughJson(held.state)
      const topped = yield* inAMinute(runPrompt(runtime, { state, decisions }))
      assert.isAbove(expect(topped, "completed").usage.turns, 12)
      expect(yield* inAMinute(runPromptStored(runtime, { runId, decisions })), "completed")
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("counts from then on if a caller gives maxTurns when it resumes the run", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const model = team(({ turn }) => {
        if (turn === 1) return delegates(12)
        return turn === 12 ? { calls: [call("write", "1")] } : `I have read ${turn}.`
      })
      const { runtime } = yield* rebind(lead({ tools: [write.tool] }), model)
      const held = yield* inAMinute(runPrompt(runtime, { prompt: "go" }))
      assert.deepStrictEqual(turnsOf(held.state), { all: 12, reportTurns: 9 })
      const state = throughJson(held.state)
      const decisions = [approve(only(held, "approval"))]
      const failed = yield* runPrompt(runtime, { state, decisions, limits: { maxTurns: 10 } })
      assert.include(expect(failed, "error").error.message, "turns budget of 10 is used up (12)")
    })
  )

  it.effect("does not count for a sub-agent that leads others", () =>
    Effect.gen(function* () {
      const middle = Agent.make("middle", { subAgents: [Agent.make("scout")], delegation: "delegate" })
      const model = team(({ agentPath, turn }) => {
        if (agentPath.length === 2) return reading(12)({ turn } as ModelRequest)
        return turn === 1 ? { calls: [{ tool: "middle", arguments: { prompt: "go" } }] } : "Done."
      })
      const { runtime } = yield* rebind(Agent.make("top", { subAgents: [middle] }), model)
      const { state } = expect(yield* inAMinute(runPrompt(runtime, { prompt: "go" })), "completed")
      assert.strictEqual(state.below?.turns, 12 + 14)
    })
  )
})
