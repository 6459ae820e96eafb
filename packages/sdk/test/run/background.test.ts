import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { interruptions, type RunState } from "../../src/domain/RunState.ts"
import { QuotaExhausted } from "../../src/model/ModelError.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import {
  approvalOf,
  approve,
  assertValid,
  call,
  events,
  expect,
  only,
  probe,
  rebind,
  results,
  safe,
  throughJson,
  transcript,
  watch
} from "../helpers/Fixture.ts"

const delegate = (agent: string, background = true, prompt = "do") => ({
  tool: "delegate",
  arguments: { agent, prompt, background }
})

type Answers = { readonly [agent: string]: ReadonlyArray<ScriptedModel.ScriptedAnswer | string> }

/** A model that answers each agent of the tree from its own script. */
const scripted = (answers: Answers) => {
  const taken = new Map<string, number>()
  return ScriptedModel.make((request: ModelRequest) => {
    const name = request.agentPath.at(-1) ?? ""
    const index = taken.get(name) ?? 0
    taken.set(name, index + 1)
    return answers[name]?.[index] ?? `${name} has nothing more to say`
  })
}

const lead = (subAgents: ReadonlyArray<Agent.Any>, options: Agent.AgentOptions<any, undefined> = {}) =>
  Agent.make("lead", { ...options, subAgents, delegation: "delegate" })

/** Runs the effect and advances the clock by a second. */
const aSecondLater = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect)
    yield* TestClock.adjust("1 second")
    return yield* Fiber.join(fiber)
  })

/** The events of the runs of sub-agents, as `agent tag`. */
const inside = (updates: ReturnType<typeof watch>["updates"], tag: string): ReadonlyArray<string> =>
  events(updates).flatMap((event) => {
    const { event: inner, path } = unwrap(event)
    return path.length > 0 && inner._tag === tag ? [path.at(-1)!.replace(/^.*\.t/, "t")] : []
  })

const backgroundOf = (state: RunState) =>
  (state.background ?? []).map(({ child, ended, name }) => `${name} ${ended?.status ?? child?.status}`)

describe("a sub-agent in the background", () => {
  it.effect("returns a receipt at once, and delivers its answer in a message", () =>
    Effect.gen(function* () {
      const model = scripted({
        lead: [{ calls: [delegate("scout")] }, "I go on meanwhile.", "The scout says: blue."],
        scout: [{ text: "blue", delay: "1 second" }]
      })
      const { runtime } = yield* rebind(lead([Agent.make("scout")]), model)
      const { state, text } = expect(yield* aSecondLater(runPrompt(runtime, { prompt: "go" })), "completed")
      assert.strictEqual(text, "The scout says: blue.")
      const id = `${state.runId}.t1.1`
      assert.deepStrictEqual(results(state), [
        `delegate completed: scout is at work in the background as ${id}. What it comes to will be told to you in a message.`
      ])
      assert.include(transcript(state), `user: The agent scout (${id}) has finished:\n\nblue`)
      assert.deepStrictEqual(backgroundOf(state), ["scout completed"])
      assertValid(state)
    })
  )

  it.effect("can be awaited, listed, sent a message and cancelled by the model", () =>
    Effect.gen(function* () {
      const id = (n: number) => `run-1.t1.${n}`
      const release = yield* Deferred.make<void>()
      const slow = safe("slow", { handler: () => Effect.as(Deferred.await(release), "slow") })
      const model = scripted({
        lead: [
          { calls: [delegate("scout"), delegate("hang")] },
          {
            calls: [
              { tool: "list_agents" },
              { tool: "message_agent", arguments: { agentRun: id(1), message: "Mind the gap." } },
              { tool: "cancel_agent", arguments: { agentRun: id(2), reason: "too slow" } },
              { tool: "cancel_agent", arguments: { agentRun: "nobody" } },
              { tool: "free", arguments: { id: "1" } },
              { tool: "wait_for_agent", arguments: { agentRuns: [id(1)] } }
            ]
          },
          "all known"
        ],
        scout: [{ calls: [call("slow", "1")] }, "found"],
        hang: [{ hang: true }]
      })
      const free = safe("free", { handler: () => Effect.as(Deferred.succeed(release, undefined), "freed") })
      const agents = [Agent.make("scout", { tools: [slow.tool] }), Agent.make("hang")]
      const { runtime } = yield* rebind(lead(agents, { tools: [free.tool] }), model)
      const { state } = expect(
        yield* runPrompt(runtime, { prompt: "go", runId: "run-1" as RunState["runId"] }),
        "completed"
      )
      assert.deepStrictEqual(results(state).slice(2), [
        `list_agents completed: - ${id(1)}: scout, at work, turn 1\n- ${id(2)}: hang, at work, turn 0`,
        "message_agent completed: scout will read it before its next step.",
        "cancel_agent completed: hang was stopped.",
        `cancel_agent failed: There is no agent "nobody" in the background. There are: ${id(1)}, ${id(2)}.`,
        "free completed: freed",
        "wait_for_agent completed: They have ended."
      ])
      assert.deepStrictEqual(backgroundOf(state), ["scout completed", "hang cancelled"])
      const scout = model.requests.filter(({ agentPath }) => agentPath.at(-1) === "scout").at(-1)
      assert.include(JSON.stringify(scout?.messages), "Mind the gap.")
      assertValid(state)
    })
  )

  it.effect("blocks neither its parent nor its siblings while it is held, and resumes where it stood", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const answers: Answers = {
        lead: [
          { calls: [delegate("writer"), delegate("scout")] },
          "Both are at work.",
          "The scout is back.",
          "The writer is back, too."
        ],
        writer: [{ calls: [call("write", "1")] }, "written"],
        scout: [{ text: "seen", delay: "1 second" }]
      }
      const model = scripted(answers)
      const agents = [Agent.make("writer", { tools: [write.tool] }), Agent.make("scout")]
      const { runtime } = yield* rebind(lead(agents), model)
      const held = yield* aSecondLater(runPrompt(runtime, { prompt: "go" }))
      const request = only(held, "approval")
      assert.deepStrictEqual(request.agentPath, ["lead", "writer"])
      assert.deepStrictEqual(backgroundOf(held.state), ["writer held", "scout completed"])
      assert.include(transcript(held.state).at(-1), "The scout is back.")
      assert.deepStrictEqual(write.ran, [])

      const asked = model.requests.length
      const state = throughJson(held.state)
      const done = expect(yield* runPrompt(runtime, { state, decisions: [approve(request)] }), "completed")
      assert.strictEqual(done.text, "The writer is back, too.")
      assert.deepStrictEqual(write.ran, ["1"])
      // The writer's second turn and the lead's last: nothing that had been answered was asked again.
      assert.strictEqual(model.requests.length, asked + 2)
      assertValid(done.state)
    })
  )

  it.effect("works at any depth, and its requests reach the root with the agent path", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const model = scripted({
        lead: [{ calls: [delegate("middle")] }, "lead waits", "lead is done"],
        middle: [{ calls: [delegate("leaf")] }, "middle waits", "middle is done"],
        leaf: [{ calls: [call("write", "1")] }, "leaf is done"]
      })
      const leaf = Agent.make("leaf", { tools: [write.tool] })
      const middle = Agent.make("middle", { subAgents: [leaf], delegation: "delegate" })
      const { runtime } = yield* rebind(lead([middle]), model)
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const request = only(held, "approval")
      assert.deepStrictEqual(request.agentPath, ["lead", "middle", "leaf"])
      const state = throughJson(held.state)
      const done = expect(yield* runPrompt(runtime, { state, decisions: [approve(request)] }), "completed")
      assert.strictEqual(done.text, "lead is done")
      assert.deepStrictEqual(write.ran, ["1"])
      assertValid(done.state)
    })
  )

  it.effect("runs concurrently with the other sub-agents of the same answer, attached ones included", () =>
    Effect.gen(function* () {
      const all = yield* Deferred.make<void>()
      let arrived = 0
      const meet = safe("meet", {
        handler: () =>
          Effect.suspend(() =>
            ++arrived === 3
              ? Effect.as(Deferred.succeed(all, undefined), "met")
              : Effect.as(Deferred.await(all), "met")
          )
      })
      const agents = ["a", "b", "c"].map((name) => Agent.make(name, { tools: [meet.tool] }))
      const answers = Object.fromEntries(
        agents.map(({ name }) => [name, [{ calls: [call("meet", name)] }, `${name} is done`]])
      )
      const model = scripted({
        lead: [{ calls: agents.map(({ name }) => delegate(name, false)) }, "all met"],
        ...answers
      })
      const { runtime } = yield* rebind(lead(agents), model)
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(results(state), [
        "delegate completed: a is done",
        "delegate completed: b is done",
        "delegate completed: c is done"
      ])
    })
  )

  it.effect("waits while agentConcurrency sub-agents are at work", () =>
    Effect.gen(function* () {
      let at = 0
      let most = 0
      const tool = safe("work", {
        handler: () =>
          Effect.gen(function* () {
            most = Math.max(most, ++at)
            for (let i = 0; i < 5; i++) yield* Effect.yieldNow
            at -= 1
            return "done"
          })
      })
      const worker = Agent.make("worker", { tools: [tool.tool] })
      const model = ScriptedModel.make(({ agentPath, turn, messages }) =>
        agentPath.length === 1
          ? turn === 1
            ? { calls: Array.from({ length: 10 }, () => delegate("worker")) }
            : { calls: [{ tool: "wait_for_agent" }] }
          : messages.length === 1
            ? { calls: [call("work", "1")] }
            : "done"
      )
      const { runtime } = yield* rebind(
        lead([worker], { limits: { agentConcurrency: 3, maxTurns: 2 } }),
        model
      )
      const result = yield* runPrompt(runtime, { prompt: "go" })
      assert.strictEqual(result.status, "error")
      assert.deepStrictEqual(
        backgroundOf(result.state),
        Array.from({ length: 10 }, () => "worker completed")
      )
      assert.strictEqual(most, 3)
    })
  )

  it.effect("is cancelled once with its root, and its tools' signals abort", () =>
    Effect.gen(function* () {
      let begun = 0
      let aborted = 0
      const all = yield* Deferred.make<void>()
      const count = 200
      const hang = safe("hang", {
        handler: (_, { signal }) =>
          new Promise<string>((_, reject) => {
            signal.addEventListener("abort", () => {
              aborted += 1
              reject(new Error("stopped"))
            })
            if (++begun === count) Effect.runFork(Deferred.succeed(all, undefined))
          })
      })
      const worker = Agent.make("worker", { tools: [hang.tool] })
      const model = ScriptedModel.make(({ agentPath, turn }) =>
        agentPath.length === 1
          ? turn === 1
            ? { calls: Array.from({ length: count }, () => delegate("worker")) }
            : "waiting"
          : { calls: [call("hang", "1")] }
      )
      const { runtime } = yield* rebind(lead([worker], { limits: { agentConcurrency: count } }), model)
      const cancellation = Cancellation.make()
      const { onUpdate, updates } = watch()
      const running = yield* Effect.forkChild(
        runPrompt(runtime, { prompt: "go" }, { cancellation, onUpdate })
      )
      yield* Deferred.await(all)
      cancellation.cancel("enough")
      const { reason, state } = expect(yield* Fiber.join(running), "cancelled")
      assert.strictEqual(reason, "enough")
      assert.strictEqual(aborted, count)
      assert.deepStrictEqual(
        inside(updates, "run.cancelled").toSorted(),
        inside(updates, "run.started").toSorted()
      )
      assert.strictEqual(new Set(inside(updates, "run.cancelled")).size, count)
      assert.deepStrictEqual(new Set(backgroundOf(state)), new Set(["worker cancelled"]))
    })
  )

  it.effect("continues when its failed root run is continued", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const model = scripted({
        lead: [{ calls: [delegate("writer")] }, "waiting", "done"],
        writer: [{ calls: [call("write", "1")] }, "written"]
      })
      const agent = lead([Agent.make("writer", { tools: [write.tool] })], { limits: { maxTurns: 1 } })
      const { runtime } = yield* rebind(agent, model)
      const failed = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.strictEqual(failed.error._tag, "BudgetExceeded")
      const state = throughJson(failed.state)
      const held = yield* runPrompt(runtime, { state, limits: { maxTurns: 5 } })
      const request = approvalOf(held, "1")
      const done = yield* runPrompt(runtime, { state: held.state, decisions: [approve(request)] })
      assert.strictEqual(expect(done, "completed").text, "done")
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )

  it.effect("is denied when its request expires, while its siblings are at work", () =>
    Effect.gen(function* () {
      const write = probe("write", { approval: { expiresIn: "1 minute" } })
      const model = scripted({
        lead: [{ calls: [delegate("writer"), delegate("slow")] }, "waiting", "waiting", "done"],
        writer: [{ calls: [call("write", "1")] }, "denied, then"],
        slow: [{ text: "slow is done", delay: "1 hour" }]
      })
      const agents = [Agent.make("writer", { tools: [write.tool] }), Agent.make("slow")]
      const { runtime } = yield* rebind(lead(agents), model)
      const told = watch()
      const asked = yield* Deferred.make<void>()
      const denied = yield* Deferred.make<void>()
      const onUpdate = (update: (typeof told.updates)[number]) => {
        told.onUpdate(update)
        if (inside([update], "request.opened").length > 0) Effect.runFork(Deferred.succeed(asked, undefined))
        if (inside([update], "run.completed").length > 0) Effect.runFork(Deferred.succeed(denied, undefined))
      }
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { onUpdate }))
      yield* Deferred.await(asked)
      yield* TestClock.adjust("2 minutes")
      yield* Deferred.await(denied)
      assert.deepStrictEqual(inside(told.updates, "run.completed"), ["t1.1"])
      yield* TestClock.adjust("1 hour")
      expect(yield* Fiber.join(running), "completed")
      assert.deepStrictEqual(write.ran, [])
    })
  )

  it.effect("cancels the sub-agents under it and closes their requests when it fails", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const model = scripted({
        lead: [{ calls: [delegate("middle", false)] }, "lead goes on"],
        middle: [
          { calls: [delegate("leaf"), delegate("asker")] },
          { error: new QuotaExhausted({ description: "empty" }), delay: "1 second" }
        ],
        leaf: [{ hang: true }],
        asker: [{ calls: [call("write", "1")] }]
      })
      const below = [Agent.make("leaf"), Agent.make("asker", { tools: [write.tool] })]
      const middle = Agent.make("middle", { subAgents: below, delegation: "delegate" })
      const { runtime } = yield* rebind(lead([middle]), model)
      const told = watch()
      const running = aSecondLater(runPrompt(runtime, { prompt: "go" }, { onUpdate: told.onUpdate }))
      const { state } = expect(yield* running, "completed")
      assert.deepStrictEqual(inside(told.updates, "run.cancelled").toSorted(), ["t1.1", "t1.2"])
      assert.deepStrictEqual(inside(told.updates, "run.failed"), ["t1.1"])
      assert.deepStrictEqual(interruptions(state), [])
      assert.deepStrictEqual(write.ran, [])
    })
  )

  it.effect("ends after the sub-agents under it when the run is cancelled, and keeps their results", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const slow = safe("slow", {
        handler: (_, { signal }) =>
          new Promise<string>((resolve) => {
            signal.addEventListener("abort", () => setImmediate(() => resolve("kept")))
            Effect.runFork(Deferred.succeed(begun, undefined))
          })
      })
      const model = scripted({
        lead: [{ calls: [delegate("middle")] }, "waiting"],
        middle: [{ calls: [delegate("leaf")] }, "waiting"],
        leaf: [{ calls: [call("slow", "1")] }]
      })
      const leaf = Agent.make("leaf", { tools: [slow.tool] })
      const middle = Agent.make("middle", { subAgents: [leaf], delegation: "delegate" })
      const { runtime } = yield* rebind(lead([middle]), model, { cancelGrace: "5 seconds" })
      const cancellation = Cancellation.make()
      const { onUpdate, updates } = watch()
      const running = yield* Effect.forkChild(
        runPrompt(runtime, { prompt: "go" }, { cancellation, onUpdate })
      )
      yield* Deferred.await(begun)
      cancellation.cancel("enough")
      expect(yield* Fiber.join(running), "cancelled")
      const tags = events(updates).map((event) => {
        const { event: inner, path } = unwrap(event)
        return `${path.length} ${inner._tag}`
      })
      assert.deepStrictEqual(tags.slice(-4), [
        "2 tool.completed",
        "2 run.cancelled",
        "1 run.cancelled",
        "0 run.cancelled"
      ])
    })
  )
})
