import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../src/agent/Agent.ts"
import type { Limits } from "../../src/domain/Limits.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { ConnectionLost, QuotaExhausted } from "../../src/model/ModelError.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import {
  assertValid,
  bind,
  call,
  deny,
  events,
  expect,
  only,
  rebind,
  results,
  safe,
  transcript,
  watch
} from "../helpers/Fixture.ts"

const usage = { inputTokens: 50, outputTokens: 50, costUsd: 1 }
const topUp = (requestId: string, limit: number) =>
  ({ _tag: "topUp", requestId, by: "ann", limit }) as unknown as ReturnType<typeof deny>

/** A lead that delegates to `workers` workers; each takes `turns` turns of 100 tokens and 1 dollar. */
const tree = (options: {
  readonly lead?: Partial<Limits>
  readonly worker?: Partial<Limits>
  readonly workers?: number
  readonly turns?: number
}) => {
  const { workers = 2, turns = 3 } = options
  const worker = Agent.make("worker", {
    tools: [safe().tool],
    limits: { maxTurns: 100, ...options.worker }
  })
  const lead = Agent.make("lead", {
    subAgents: [worker],
    delegation: "delegate",
    limits: { maxTurns: 100, ...options.lead }
  })
  const calls = Array.from({ length: workers }, () => ({
    tool: "delegate",
    arguments: { agent: "worker", prompt: "work" }
  }))
  const model = ScriptedModel.make(({ agentPath, turn, settings }) => {
    if (settings?.toolChoice === "none") return { text: "This is how far I am.", usage }
    if (agentPath.length === 1) return turn === 1 ? { calls, usage } : { text: "all done", usage }
    return turn < turns ? { calls: [call("safe", String(turn))], usage } : { text: "worked", usage }
  })
  return rebind(lead, model)
}

describe("a budget", () => {
  it.effect("of tokens counts the whole tree, and opens one limit request, at the run that owns it", () =>
    Effect.gen(function* () {
      const { model, runtime } = yield* tree({ lead: { maxTokens: 450 } })
      const held = yield* runPromptStored(runtime, { prompt: "go" })
      const request = only(held, "limit")
      assert.deepInclude(request, { budget: "tokens", limit: 450, agentPath: ["lead"] })
      // One turn of the lead, and the turns that the workers had begun.
      assert.isAtMost(model.requests.length, 6)
      const { runId } = held
      const done = yield* runPromptStored(runtime, { runId, decisions: [topUp(request.requestId, 5000)] })
      assert.strictEqual(expect(done, "completed").text, "all done")
      assert.strictEqual(model.requests.length, 8)
      assert.strictEqual(done.usage.inputTokens + done.usage.outputTokens, 800)
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("of tokens fails the run with BudgetExceeded when it cannot be raised", () =>
    Effect.gen(function* () {
      const { runtime } = yield* tree({ lead: { maxTokens: 450 } })
      const result = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.deepInclude(result.error, { _tag: "BudgetExceeded", budget: "tokens", limit: 450 })
      assertValid(result.state)
    })
  )

  it.effect("of turns or of tool calls can count the whole tree", () =>
    Effect.gen(function* () {
      const turns = yield* tree({ lead: { maxTreeTurns: 4 }, workers: 1, turns: 10 })
      const one = expect(yield* runPrompt(turns.runtime, { prompt: "go" }), "error")
      assert.deepInclude(one.error, { budget: "treeTurns", limit: 4, spent: 4 })
      assert.strictEqual(turns.model.requests.length, 4)
      const calls = yield* tree({ lead: { maxTreeToolCalls: 4 }, workers: 1, turns: 10 })
      const two = expect(yield* runPrompt(calls.runtime, { prompt: "go" }), "completed")
      assert.include(
        results(two.state).join(),
        "delegate failed: worker failed. The treeToolCalls budget of 4"
      )
    })
  )

  it.effect("of a sub-agent is reserved when it starts, and its unused rest is returned", () =>
    Effect.gen(function* () {
      // 1000 - 100 for the lead's first turn; each worker asks for 600: the first gets 600, the second the rest.
      const { onUpdate, updates } = watch()
      const { runtime } = yield* tree({ lead: { maxTokens: 1000 }, worker: { maxTokens: 600 } })
      expect(yield* runPrompt(runtime, { prompt: "go" }, { onUpdate }), "completed")
      const promised = events(updates).flatMap((event) => {
        const { event: inner, path } = unwrap(event)
        return inner._tag === "run.started" && path.length > 0 ? [inner.limits.maxTokens] : []
      })
      assert.deepStrictEqual(promised, [600, 300])
    })
  )

  it.effect("with no rest opens a limit request at the lead before another sub-agent starts", () =>
    Effect.gen(function* () {
      const { model, runtime } = yield* tree({
        lead: { maxTokens: 700 },
        worker: { maxTokens: 600 },
        workers: 3
      })
      const held = yield* runPromptStored(runtime, { prompt: "go" })
      assert.deepInclude(only(held, "limit"), { budget: "tokens", limit: 700, agentPath: ["lead"] })
      assert.isAbove(model.requests.length, 0)
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("of money that is reserved for sub-agents counts as spent, and its cost stays known", () =>
    Effect.gen(function* () {
      const { runtime } = yield* tree({ lead: { maxCostUsd: 7 }, worker: { maxCostUsd: 6 }, workers: 3 })
      const held = yield* runPromptStored(runtime, { prompt: "go" })
      assert.deepInclude(only(held, "limit"), { budget: "cost", limit: 7, spent: 7, agentPath: ["lead"] })
      const open = yield* tree({ lead: { maxCostUsd: 7 }, worker: { maxCostUsd: 6 }, workers: 3 })
      const alone = yield* runPrompt(open.runtime, { prompt: "go" })
      assert.include(results(alone.state).join(), "was not started: nothing is left of the cost budget")
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("of money fails the run when a price is unknown, and the error says so", () =>
    Effect.gen(function* () {
      const agent = Agent.make("a", { tools: [safe().tool], limits: { maxCostUsd: 5 } })
      const unpriced = { inputTokens: 1, outputTokens: 1, costUsd: undefined as unknown as number }
      const { runtime } = yield* bind(agent, [{ calls: [call("safe", "1")], usage: unpriced }, "done"])
      const { error } = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.include(error.message, "The cost of this run is unknown")
    })
  )

  it.effect("of time excludes the time while held, and interrupts a model call", () =>
    Effect.gen(function* () {
      const write = safe("write", { needsApproval: true })
      const agent = Agent.make("a", { tools: [write.tool], limits: { maxWallMs: 10_000 } })
      const { runtime } = yield* bind(agent, [
        { calls: [call("write", "1")], delay: "4 seconds" },
        { text: "late", delay: "7 seconds" },
        "in time"
      ])
      const first = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go" }))
      yield* TestClock.adjust("4 seconds")
      const held = yield* Fiber.join(first)
      const { requestId } = only(held, "approval")
      const { runId } = held
      yield* TestClock.adjust("3 days")
      const second = yield* Effect.forkChild(
        runPromptStored(runtime, { runId, decisions: [{ _tag: "approve", requestId, by: "ann" }] })
      )
      yield* TestClock.adjust("6 seconds")
      const out = only(yield* Fiber.join(second), "limit")
      assert.deepInclude(out, { budget: "wallTime", limit: 10_000, spent: 10_000 })
      const done = yield* runPromptStored(runtime, { runId, decisions: [topUp(out.requestId, 60_000)] })
      assert.strictEqual(expect(done, "completed").text, "in time")
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("is announced as nearing once", () =>
    Effect.gen(function* () {
      const { onUpdate, updates } = watch()
      const { runtime } = yield* tree({ lead: { maxTokens: 1000, warnAt: 0.5 } })
      expect(yield* runPrompt(runtime, { prompt: "go" }, { onUpdate }), "completed")
      const told = events(updates).filter(({ _tag }) => _tag === "budget.nearing")
      assert.strictEqual(told.length, 1)
      assert.deepInclude(told[0], { budget: "tokens", limit: 1000, spent: 500 })
    })
  )

  it.effect(
    "with wrapUp gives the model one turn without tools to report, then opens a limit request; a top-up continues the run",
    () =>
      Effect.gen(function* () {
        const agent = Agent.make("a", { tools: [safe().tool], limits: { maxTurns: 2, wrapUp: true } })
        const { model, runtime } = yield* bind(agent, [
          { calls: [call("safe", "1")] },
          { calls: [call("safe", "2")] },
          { text: "Half of it is done.", calls: [call("safe", "3")] },
          "All of it is done."
        ])
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        const { requestId } = only(held, "limit")
        assert.deepStrictEqual(transcript(held.state).slice(-2), [
          "user: The turns budget is used up. No tool can be called any more. Say what has been achieved, what is left to do, and what whoever goes on should know.",
          "assistant: Half of it is done."
        ])
        assert.strictEqual(model.requests[2]?.settings?.toolChoice, "none")
        assertValid(held.state)
        const { runId } = held
        const done = yield* runPromptStored(runtime, { runId, decisions: [topUp(requestId, 9)] })
        assert.strictEqual(expect(done, "completed").text, "All of it is done.")
        assert.include(transcript(done.state).join("\n"), "The turns budget was raised. Go on.")
        assertValid(done.state)
      }).pipe(Effect.provide(layerMemory))
  )

  it.effect(
    "of tool calls is exceeded by the call above it: a run that makes exactly as many completes normally",
    () =>
      Effect.gen(function* () {
        const { ran, tool } = safe()
        const agent = Agent.make("a", { tools: [tool], limits: { maxToolCalls: 1, wrapUp: true } })
        const within = yield* bind(agent, [{ calls: [call("safe", "1")] }, "All of it is done."])
        assert.strictEqual(
          expect(yield* runPrompt(within.runtime, { prompt: "go" }), "completed").text,
          "All of it is done."
        )
        assert.isUndefined(within.model.requests.at(-1)?.settings?.toolChoice)
        const over = yield* bind(agent, [
          { calls: [call("safe", "2")] },
          { calls: [call("safe", "3")] },
          "Half of it."
        ])
        const held = yield* runPromptStored(over.runtime, { prompt: "go" })
        assert.strictEqual(over.model.requests.at(-1)?.settings?.toolChoice, "none")
        assert.strictEqual(transcript(held.state).at(-1), "assistant: Half of it.")
        only(held, "limit")
        assert.deepStrictEqual(ran, ["1", "2"])
      }).pipe(Effect.provide(layerMemory))
  )

  it.effect("ends the run with the model's last text when its limit request is denied", () =>
    Effect.gen(function* () {
      const agent = Agent.make("a", { tools: [safe().tool], limits: { maxTurns: 1, wrapUp: true } })
      const { runtime } = yield* bind(agent, [{ calls: [call("safe", "1")] }, "Not even half."])
      const held = yield* runPromptStored(runtime, { prompt: "go" })
      const { runId } = held
      const decisions = [deny(only(held, "limit"))]
      const { error, state } = expect(yield* runPromptStored(runtime, { runId, decisions }), "error")
      assert.deepInclude(error, { _tag: "BudgetExceeded", budget: "turns" })
      assert.strictEqual(transcript(state).at(-1), "assistant: Not even half.")
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("counts the usage of model calls that failed", () =>
    Effect.gen(function* () {
      const lost = { inputTokens: 40, outputTokens: 2, costUsd: 0.5 }
      const reason = new ConnectionLost({ description: "cut" })
      const { runtime } = yield* bind(Agent.make("a"), [
        { error: reason, usage: lost, errorOnlyStreaming: true, text: "whole" }
      ])
      const { usage } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepInclude(usage, { inputTokens: 80, requests: 2, turns: 1, costUsd: 1 })
      const failing = yield* bind(Agent.make("a"), [
        { error: new QuotaExhausted({ description: "empty" }), usage: lost }
      ])
      const failed = expect(yield* runPrompt(failing.runtime, { prompt: "go" }), "error")
      assert.deepInclude(failed.usage, { inputTokens: 40, requests: 1, turns: 0, costUsd: 0.5 })
    })
  )
})
