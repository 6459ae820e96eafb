import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../src/agent/Agent.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import type { Limits } from "../../src/domain/Limits.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { interruptions } from "../../src/domain/RunState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import * as Mailbox from "../../src/run/Mailbox.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import {
  approve,
  assertValid,
  call,
  deny,
  events,
  expect,
  only,
  probe,
  rebind,
  results,
  safe,
  transcript,
  watch
} from "../helpers/Fixture.ts"

const usage = { inputTokens: 50, outputTokens: 50, costUsd: 1 }

const topUp = (request: Interruption, limit: number) =>
  ({ _tag: "topUp", requestId: request.requestId, by: "ann", limit }) as const

const delegate = (agent: string, background = false) => ({
  tool: "delegate",
  arguments: { agent, prompt: "work", background }
})

type Answer = ScriptedModel.ScriptedAnswer | string

/** A model that answers each agent from its own script, 100 tokens and 1 dollar each, and reports when asked to wrap up. */
const scripted = (answers: { readonly [agent: string]: ReadonlyArray<Answer> }) => {
  const taken = new Map<string, number>()
  return ScriptedModel.make(({ agentPath, settings }) => {
    const name = agentPath.at(-1) ?? ""
    if (settings?.toolChoice === "none") return { text: `${name} is half done.`, usage }
    const index = taken.get(name) ?? 0
    taken.set(name, index + 1)
    const answer = answers[name]?.[index] ?? `${name} has nothing more to say`
    return { usage, ...(typeof answer === "string" ? { text: answer } : answer) }
  })
}

const agents = (
  subAgents: ReadonlyArray<Agent.Any>,
  limits: Partial<Limits>,
  options: Agent.AgentOptions<any, undefined> = {}
) =>
  Agent.make("lead", { ...options, subAgents, delegation: "delegate", limits: { maxTurns: 100, ...limits } })

/** Yields to other fibers until the condition holds. */
const until = (isSo: () => boolean) =>
  Effect.repeat(Effect.as(Effect.yieldNow, undefined), { until: () => isSo() })

const interruptionsOf = (mailbox: Mailbox.Mailbox) => {
  const state = mailbox.state()
  return state === undefined ? [] : interruptions(state)
}

const kinds = (requests: ReadonlyArray<Interruption>) =>
  requests.map(({ _tag, agentPath }) => `${_tag} of ${agentPath.at(-1)}`).toSorted()

const find = <Tag extends Interruption["_tag"]>(requests: ReadonlyArray<Interruption>, tag: Tag) =>
  requests.find((request) => request._tag === tag) as Extract<Interruption, { readonly _tag: Tag }>

/** A lead with 1000 tokens, 900 of them reserved for a background writer that needs an approval. */
const held = Effect.gen(function* () {
  const write = probe("write", { needsApproval: true })
  const writer = Agent.make("writer", { tools: [write.tool], limits: { maxTokens: 900 } })
  const model = scripted({
    lead: [{ calls: [delegate("writer", true)] }, "I go on.", "all done"],
    writer: [{ calls: [call("write", "1")] }, "written"]
  })
  const { onUpdate, updates } = watch()
  const { runtime } = yield* rebind(agents([writer], { maxTokens: 1000 }), model)
  return { model, runtime, write, onUpdate, updates }
})

const withdrawn = (updates: ReturnType<typeof watch>["updates"]) =>
  events(updates).flatMap((event) => {
    const { event: inner } = unwrap(event)
    return inner._tag === "request.superseded" ? [inner.reason] : []
  })

describe("a budget reserved for a held sub-agent", () => {
  it.effect("opens a limit request, which is superseded when the sub-agent returns its rest", () =>
    Effect.gen(function* () {
      const { model, onUpdate, runtime, updates, write } = yield* held
      const first = expect(yield* runPromptStored(runtime, { prompt: "go" }), "interrupted")
      assert.deepStrictEqual(kinds(first.interruptions), ["approval of writer", "limit of lead"])
      const limit = find(first.interruptions, "limit")
      assert.deepInclude(limit, { budget: "tokens", limit: 1000, spent: 1000 })
      const { runId } = first
      const decisions = [approve(find(first.interruptions, "approval"))]
      const done = yield* runPromptStored(runtime, { runId, decisions }, { onUpdate })
      assert.strictEqual(expect(done, "completed").text, "I go on.")
      assert.deepStrictEqual(write.ran, ["1"])
      assert.deepStrictEqual(withdrawn(updates), [
        "there is room in the budget again: a sub-agent has not used all that was set aside for it"
      ])
      assert.strictEqual(model.requests.length, 4)
      assertValid(done.state)
      const store = yield* RunStore
      const late = yield* Effect.flip(store.decide({ ...topUp(limit, 5000), at: 0 } as never))
      assert.strictEqual(late._tag, "RequestSuperseded")
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("can be topped up while the sub-agent is held, and the lead continues", () =>
    Effect.gen(function* () {
      const { runtime, write } = yield* held
      const first = expect(yield* runPromptStored(runtime, { prompt: "go" }), "interrupted")
      const { runId } = first
      const more = [topUp(find(first.interruptions, "limit"), 5000)]
      const second = yield* runPromptStored(runtime, { runId, decisions: more })
      const request = only(second, "approval")
      assert.strictEqual(transcript(second.state).at(-1), "assistant: I go on.")
      const done = yield* runPromptStored(runtime, { runId, decisions: [approve(request)] })
      assert.strictEqual(expect(done, "completed").text, "all done")
      assert.deepStrictEqual(write.ran, ["1"])
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("ends the run when the top-up is denied", () =>
    Effect.gen(function* () {
      const { runtime } = yield* held
      const first = expect(yield* runPromptStored(runtime, { prompt: "go" }), "interrupted")
      const decisions = [deny(find(first.interruptions, "limit"))]
      const { error } = expect(yield* runPromptStored(runtime, { runId: first.runId, decisions }), "error")
      assert.deepInclude(error, { _tag: "BudgetExceeded", budget: "tokens" })
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("holds the run on the sub-agent when there is no store", () =>
    Effect.gen(function* () {
      const { runtime } = yield* held
      const first = yield* runPrompt(runtime, { prompt: "go" })
      const decisions = [approve(only(first, "approval"))]
      const done = yield* runPrompt(runtime, { state: first.state, decisions })
      assert.strictEqual(expect(done, "completed").text, "I go on.")
    })
  )

  it.effect("opens a limit request at the lead when a second sub-agent cannot start", () =>
    Effect.gen(function* () {
      const write = probe("write", { needsApproval: true })
      const writer = Agent.make("writer", { tools: [write.tool], limits: { maxTokens: 900 } })
      const reader = Agent.make("reader")
      const model = scripted({
        lead: [{ calls: [delegate("writer"), delegate("reader")] }, "all done"],
        writer: [{ calls: [call("write", "1")] }, "written"],
        reader: ["read"]
      })
      const { runtime } = yield* rebind(agents([writer, reader], { maxTokens: 1000 }), model)
      const first = expect(yield* runPromptStored(runtime, { prompt: "go" }), "interrupted")
      assert.deepStrictEqual(kinds(first.interruptions), ["approval of writer", "limit of lead"])
      const decisions = [approve(find(first.interruptions, "approval"))]
      const done = yield* runPromptStored(runtime, { runId: first.runId, decisions })
      assert.strictEqual(expect(done, "completed").text, "all done")
      assert.deepStrictEqual(results(done.state), ["delegate completed: written", "delegate completed: read"])
    }).pipe(Effect.provide(layerMemory))
  )
})

describe("a budget reserved for a working sub-agent", () => {
  it.effect("makes the run and other sub-agents wait, and opens no request", () =>
    Effect.gen(function* () {
      const open = Deferred.makeUnsafe<void>()
      const gate = safe("gate", { handler: () => Effect.as(Deferred.await(open), "through") })
      const first = Agent.make("first", { tools: [gate.tool], limits: { maxTokens: 900 } })
      const others = [Agent.make("second", { limits: { maxTokens: 900 } }), Agent.make("third")]
      const model = scripted({
        lead: [{ calls: [delegate("first", true), delegate("second"), delegate("third")] }, "all done"],
        first: [{ calls: [call("gate", "1")] }, "one"],
        second: ["two"],
        third: ["three"]
      })
      const { onUpdate, tags, updates } = watch()
      const lead = agents([first, ...others], { maxTokens: 1000, agentConcurrency: 1 })
      const { runtime } = yield* rebind(lead, model)
      const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go" }, { onUpdate }))
      yield* until(() => gate.ran.length === 1)
      assert.deepStrictEqual(model.requests.length, 2)
      yield* Deferred.succeed(open, undefined)
      const done = expect(yield* Fiber.join(running), "completed")
      assert.notInclude(tags(), "request.opened")
      const promised = events(updates).flatMap((event) => {
        const { event: inner, path } = unwrap(event)
        return inner._tag === "run.started" && path.length > 0 ? [inner.limits.maxTokens] : []
      })
      // 1000 less the lead's first turn, then less the first sub-agent's two turns.
      assert.deepStrictEqual(promised, [900, 700, undefined])
      assertValid(done.state)
    }).pipe(Effect.provide(layerMemory))
  )
})

describe("wall time", () => {
  it.effect("of a sub-agent excludes the time while it is held and its lead works", () =>
    Effect.gen(function* () {
      const write = probe("write", { needsApproval: true })
      const writer = Agent.make("writer", { tools: [write.tool], limits: { maxWallMs: 10_000 } })
      const gates = { first: Deferred.makeUnsafe<void>(), second: Deferred.makeUnsafe<void>() }
      const gate = safe("gate", {
        timeout: "1 day",
        handler: ({ id }) => Effect.as(Deferred.await(id === "1" ? gates.first : gates.second), "through")
      })
      const model = scripted({
        lead: [
          { calls: [delegate("writer", true)] },
          { calls: [call("gate", "1")] },
          { calls: [call("gate", "2")] },
          "all done"
        ],
        writer: [
          { calls: [call("write", "1")], delay: "4 seconds" },
          { text: "written", delay: "5 seconds" }
        ]
      })
      const { runtime } = yield* rebind(agents([writer], {}, { tools: [gate.tool] }), model)
      const mailbox = Mailbox.make()
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { mailbox }))
      yield* until(() => model.requests.length === 3)
      yield* TestClock.adjust("4 seconds")
      yield* until(() => interruptionsOf(mailbox).length === 1)
      yield* TestClock.adjust("1 hour")
      yield* mailbox.decide(approve(interruptionsOf(mailbox)[0]!))
      yield* Deferred.succeed(gates.first, undefined)
      yield* until(() => model.requests.length === 5)
      yield* TestClock.adjust("5 seconds")
      yield* Deferred.succeed(gates.second, undefined)
      const { state } = expect(yield* Fiber.join(running), "completed")
      assert.include(transcript(state).join("\n"), "has finished:\n\nwritten")
    })
  )

  it.effect("of a lead bounds a model call of its sub-agent", () =>
    Effect.gen(function* () {
      const model = scripted({
        lead: [{ calls: [delegate("slow")], delay: "4 seconds" }, "all done"],
        slow: [{ text: "late", delay: "1 minute" }, "in time"]
      })
      const lead = agents([Agent.make("slow", { limits: { maxWallMs: 50_000 } })], { maxWallMs: 10_000 })
      const { runtime } = yield* rebind(lead, model)
      const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go" }))
      yield* TestClock.adjust("4 seconds")
      yield* TestClock.adjust("6 seconds")
      const first = yield* Fiber.join(running)
      const request = only(first, "limit")
      assert.deepInclude(request, { budget: "wallTime", spent: 10_000, agentPath: ["lead"] })
      const more = { runId: first.runId, decisions: [topUp(request, 60_000)] }
      const done = yield* runPromptStored(runtime, more)
      assert.strictEqual(expect(done, "completed").text, "all done")
      assert.deepStrictEqual(results(done.state), ["delegate completed: in time"])
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("of a lead bounds a tool call of its sub-agent, and the next call does not start", () =>
    Effect.gen(function* () {
      const slow = probe("slow", {
        needsApproval: false,
        handler: () => Effect.as(Effect.sleep("1 minute"), "slept")
      })
      const model = scripted({
        lead: [{ calls: [delegate("worker")] }, "all done"],
        worker: [{ calls: [call("slow", "1"), call("slow", "2")] }, "worked"]
      })
      const lead = agents([Agent.make("worker", { tools: [slow.tool] })], { maxWallMs: 10_000 })
      const { runtime } = yield* rebind(lead, model)
      const { onUpdate, updates } = watch()
      const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go" }, { onUpdate }))
      yield* TestClock.adjust("10 seconds")
      const first = yield* Fiber.join(running)
      only(first, "limit")
      assert.deepStrictEqual(slow.ran, ["1"])
      const told = events(updates).flatMap((event) => {
        const { event: inner } = unwrap(event)
        return inner._tag === "tool.failed"
          ? inner.content.map((part) => (part as { text: string }).text)
          : []
      })
      assert.deepStrictEqual(told, [
        "slow failed: slow did not finish within the 10000 ms that were left of the wallTime budget; it may have taken effect all the same.",
        "slow has not run: the wallTime budget is used up."
      ])
    }).pipe(Effect.provide(layerMemory))
  )
})

describe("a run with wrapUp whose sub-agent uses up the budget", () => {
  const worker = (background = false) => ({
    agent: Agent.make("worker", { tools: [safe().tool] }),
    lead: [
      { calls: background ? [delegate("worker", true)] : [delegate("worker"), delegate("worker")] },
      "all done"
    ],
    turns: Array.from({ length: 4 }, (_, turn) => ({ calls: [call("safe", String(turn))] }))
  })

  it.effect("stops its sub-agents, reports, and then opens the limit request", () =>
    Effect.gen(function* () {
      const { agent, lead, turns } = worker()
      const model = scripted({ lead, worker: turns })
      const { onUpdate, tags } = watch()
      const { runtime } = yield* rebind(agents([agent], { maxTokens: 350, wrapUp: true }), model)
      const first = yield* runPromptStored(runtime, { prompt: "go" }, { onUpdate })
      const request = only(first, "limit")
      assert.deepInclude(request, { budget: "tokens", limit: 350, agentPath: ["lead"] })
      const stopped = "delegate cancelled: worker was stopped: the tokens budget of lead is used up."
      assert.deepStrictEqual(results(first.state), [stopped, stopped])
      assert.deepStrictEqual(transcript(first.state).slice(-2), [
        "user: The tokens budget is used up. No tool can be called any more. Say what has been achieved, what is left to do, and what whoever goes on should know.",
        "assistant: lead is half done."
      ])
      assert.isBelow(tags().indexOf("wrapUp.asked"), tags().indexOf("request.opened"))
      assertValid(first.state)
      const decisions = [topUp(request, 5000)]
      const done = yield* runPromptStored(runtime, { runId: first.runId, decisions })
      assert.strictEqual(expect(done, "completed").text, "all done")
      assert.include(transcript(done.state).join("\n"), "The tokens budget was raised. Go on.")
      assertValid(done.state)
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("reports before it fails when there is no store", () =>
    Effect.gen(function* () {
      const { agent, lead, turns } = worker()
      const { runtime } = yield* rebind(
        agents([agent], { maxTreeTurns: 4, wrapUp: true }),
        scripted({ lead, worker: turns })
      )
      const { error, state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.deepInclude(error, { _tag: "BudgetExceeded", budget: "treeTurns", limit: 4 })
      assert.strictEqual(transcript(state).at(-1), "assistant: lead is half done.")
      assertValid(state)
    })
  )

  it.effect("keeps its background sub-agents, which continue after a top-up", () =>
    Effect.gen(function* () {
      const { agent, lead, turns } = worker(true)
      const model = scripted({ lead, worker: [...turns, "worked", "worked"] })
      const { runtime } = yield* rebind(agents([agent], { maxTokens: 450, wrapUp: true }), model)
      const first = yield* runPromptStored(runtime, { prompt: "go" })
      const request = only(first, "limit")
      assert.strictEqual(transcript(first.state).at(-1), "assistant: lead is half done.")
      const decisions = [topUp(request, 5000)]
      const { state } = expect(
        yield* runPromptStored(runtime, { runId: first.runId, decisions }),
        "completed"
      )
      assert.strictEqual(transcript(state).filter((line) => line.includes("has finished")).length, 1)
      assertValid(state)
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("cancels its other calls and supersedes their requests", () =>
    Effect.gen(function* () {
      const { agent, turns } = worker()
      const write = probe("write", { needsApproval: true })
      const model = scripted({ lead: [{ calls: [delegate("worker"), call("write", "1")] }], worker: turns })
      const lead = agents([agent], { maxTokens: 350, wrapUp: true }, { tools: [write.tool] })
      const { runtime } = yield* rebind(lead, model)
      const { onUpdate, updates } = watch()
      const first = yield* runPromptStored(runtime, { prompt: "go" }, { onUpdate })
      only(first, "limit")
      assert.deepStrictEqual(results(first.state), [
        "delegate cancelled: worker was stopped: the tokens budget of lead is used up.",
        "write cancelled: This call has not run."
      ])
      assert.deepStrictEqual(withdrawn(updates), ["the tokens budget of lead is used up"])
      const inbox = yield* (yield* RunStore).pending()
      assert.deepStrictEqual(kinds(inbox.map(({ request }) => request)), ["limit of lead"])
      assert.deepStrictEqual(write.ran, [])
      assertValid(first.state)
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("reports when its wall time is used up", () =>
    Effect.gen(function* () {
      const model = scripted({
        lead: [{ calls: [delegate("slow")] }, "all done"],
        slow: [{ text: "late", delay: "1 minute" }]
      })
      const lead = agents([Agent.make("slow")], { maxWallMs: 10_000, wrapUp: true })
      const { runtime } = yield* rebind(lead, model)
      const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go" }))
      yield* TestClock.adjust("10 seconds")
      const first = yield* Fiber.join(running)
      assert.deepInclude(only(first, "limit"), { budget: "wallTime" })
      assert.deepStrictEqual(results(first.state), [
        "delegate cancelled: slow was stopped: the wallTime budget of lead is used up."
      ])
      assert.strictEqual(transcript(first.state).at(-1), "assistant: lead is half done.")
    }).pipe(Effect.provide(layerMemory))
  )
})
