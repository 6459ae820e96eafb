/**
 * Decisions, messages and cancellations that another process writes into the store while a run is at work.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { assertValid, call, deny, approve, expect, probe, rebind, results, safe } from "../helpers/Fixture.ts"

const runId = "run" as RunId

const until = (isSo: () => boolean) => Effect.repeat(Effect.yieldNow, { until: () => isSo() })

const background = (agent: string) => ({
  tool: "delegate",
  arguments: { agent, prompt: "do", background: true }
})

/** A model that answers each agent from its own script. */
const scripted = (answers: {
  readonly [agent: string]: ReadonlyArray<ScriptedModel.ScriptedAnswer | string>
}) =>
  ScriptedModel.make((request: ModelRequest) => {
    const name = request.agentPath.at(-1) ?? ""
    return answers[name]?.[request.turn - 1] ?? `${name} is done`
  })

/** Tools whose bodies do not end before the clock is adjusted. */
const slowTools = [
  probe("slow", { needsApproval: false, handler: () => Effect.as(Effect.sleep("5 minutes"), "slow") }).tool,
  safe("look", { handler: () => Effect.as(Effect.sleep("5 minutes"), "look") }).tool
]

/** A run that notices nothing would wait for ever. */
const patienceMs = 20_000

const stored = (name: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(name, () => Effect.provide(body, Layer.fresh(layerMemory)), patienceMs)

/** The open requests, once there are as many. */
const requests = (count: number) =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const pending = Effect.andThen(Effect.yieldNow, store.pending())
    const found = yield* Effect.repeat(pending, { until: ({ length }) => length === count })
    return found.map(({ request }) => request)
  })

/** What a lead does while its sub-agent waits for an approval. Its turn does not end before the clock is adjusted. */
const atWork: Readonly<Record<string, ScriptedModel.ScriptedAnswer>> = {
  "a model call": { text: "hm", delay: "5 minutes" },
  "a slow read-only tool": { calls: [call("look", "1")] },
  "a slow tool with effects": { calls: [call("slow", "1")] },
  "several tools": { calls: [call("look", "1"), call("look", "2")] }
}

/** Starts a lead that is at work, while a background sub-agent at some depth waits for two approvals. */
const leading = Effect.fnUntraced(function* (
  answer: ScriptedModel.ScriptedAnswer,
  { depth = 1, expiresIn }: { readonly depth?: number; readonly expiresIn?: "1 minute" } = {}
) {
  const write = probe("write", {
    needsApproval: true,
    ...(expiresIn === undefined ? {} : { approval: { expiresIn } })
  })
  let agent = Agent.make("writer", { tools: [write.tool] })
  const answers: Record<string, ReadonlyArray<ScriptedModel.ScriptedAnswer | string>> = {
    writer: [{ calls: [call("write", "1")] }]
  }
  for (let above = depth; above > 0; above--) {
    const below = above === depth ? "writer" : `lead${above + 1}`
    agent = Agent.make(`lead${above}`, {
      subAgents: [agent],
      delegation: "delegate",
      tools: slowTools
    })
    answers[`lead${above}`] = [{ calls: [background(below)] }, answer]
  }
  const model = scripted(answers)
  const { runtime } = yield* rebind(agent, model)
  const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }))
  const [request] = yield* requests(1)
  yield* until(() => model.requests.filter(({ turn }) => turn === 2).length === depth)
  const finish = Effect.gen(function* () {
    yield* TestClock.adjust("10 minutes")
    const { state } = expect(yield* Fiber.join(running), "completed")
    assertValid(state)
    return state
  })
  return { finish, model, request: request!, write }
})

describe("a background sub-agent whose lead is at work", () => {
  for (const [what, answer] of Object.entries(atWork)) {
    stored(
      `goes on when its request is decided during ${what} of its lead`,
      Effect.gen(function* () {
        const { finish, request, write } = yield* leading(answer)
        yield* Effect.flatMap(RunStore, (store) => store.decide(approve(request)))
        yield* until(() => write.ran.length === 1)
        yield* finish
        assert.deepStrictEqual(write.ran, ["1"])
      })
    )
  }

  stored(
    "goes on when its request is decided while all agents above it are at work",
    Effect.gen(function* () {
      const { finish, request, write } = yield* leading({ text: "hm", delay: "5 minutes" }, { depth: 3 })
      yield* Effect.flatMap(RunStore, (store) => store.decide(approve(request)))
      yield* until(() => write.ran.length === 1)
      yield* finish
    })
  )

  stored(
    "is denied when its request expires during a model call of its lead",
    Effect.gen(function* () {
      const { finish, model, write } = yield* leading(
        { text: "hm", delay: "5 minutes" },
        { expiresIn: "1 minute" }
      )
      yield* TestClock.adjust("1 minute")
      yield* until(() => model.requests.some(({ agentPath, turn }) => agentPath.length === 2 && turn === 2))
      yield* finish
      assert.deepStrictEqual(write.ran, [])
    })
  )

  stored(
    "is ended by its cancellation during a model call of its lead",
    Effect.gen(function* () {
      const { finish, request } = yield* leading({ text: "hm", delay: "5 minutes" })
      yield* cancelRun(request.runId, "not needed")
      const store = yield* RunStore
      const events = Effect.andThen(Effect.yieldNow, store.events(runId))
      yield* Effect.repeat(events, {
        until: (all) => all.some((event) => unwrap(event).event._tag === "run.cancelled")
      })
      assert.deepStrictEqual(yield* store.pending(), [])
      yield* finish
    })
  )

  stored(
    "has its request put to the approval callback during a model call of its lead",
    Effect.gen(function* () {
      const asked = yield* Deferred.make<void>()
      const write = probe("write", { needsApproval: true })
      const lead = Agent.make("lead", {
        subAgents: [Agent.make("writer", { tools: [write.tool] })],
        delegation: "delegate"
      })
      const model = scripted({
        lead: [{ calls: [background("writer")] }, { text: "hm", delay: "5 minutes" }],
        writer: [{ calls: [call("write", "1")], delay: "1 minute" }]
      })
      const { runtime } = yield* rebind(lead, model, {
        approvalCallback: (request) =>
          Effect.as(Deferred.succeed(asked, undefined), deny(request, { message: "no" }))
      })
      const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }))
      yield* until(() => model.requests.length === 3)
      yield* TestClock.adjust("1 minute")
      yield* Deferred.await(asked)
      yield* until(() => model.requests.length === 4)
      yield* TestClock.adjust("10 minutes")
      expect(yield* Fiber.join(running), "completed")
      assert.deepStrictEqual(write.ran, [])
    })
  )

  stored(
    "is in the store before its first model call, so that other processes can reach it",
    Effect.gen(function* () {
      const model = scripted({
        lead: [{ calls: [background("helper")] }],
        helper: [{ text: "hm", delay: "5 minutes" }, "heard"]
      })
      const lead = Agent.make("lead", { subAgents: [Agent.make("helper")], delegation: "delegate" })
      const { runtime } = yield* rebind(lead, model)
      const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }))
      yield* until(() => model.requests.some(({ agentPath }) => agentPath.length === 2))
      yield* sendMessage("run.t1.1" as RunId, "also this")
      yield* TestClock.adjust("10 minutes")
      expect(yield* Fiber.join(running), "completed")
      const last = model.requests.findLast(({ agentPath }) => agentPath.length === 2)
      assert.include(JSON.stringify(last?.messages), "also this")
    })
  )
})

describe("several sub-agents in the background", () => {
  stored(
    "read the mail of their run once for all of them when their model calls end together",
    Effect.gen(function* () {
      const memory = yield* RunStore
      const reading = yield* Deferred.make<void>()
      const read = yield* Deferred.make<void>()
      let reads = Infinity
      const store = {
        ...memory,
        messages: (id: RunId) =>
          Effect.suspend(() => {
            reads += 1
            if (reads !== 1) return memory.messages(id)
            return Effect.andThen(
              Deferred.succeed(reading, undefined),
              Effect.andThen(Deferred.await(read), memory.messages(id))
            )
          })
      }
      const names = ["one", "two", "three", "four"]
      const look = safe("look")
      const lead = Agent.make("lead", {
        subAgents: names.map((name) => Agent.make(name, { tools: [look.tool] })),
        delegation: "delegate"
      })
      const model = scripted({
        lead: [{ calls: names.map(background) }, { text: "hm", delay: "5 minutes" }],
        ...Object.fromEntries(
          names.map((name) => [name, [{ calls: [call("look", name)], delay: "1 minute" }]])
        )
      })
      const { runtime } = yield* rebind(lead, model)
      const running = yield* Effect.forkChild(
        Effect.provideService(runPromptStored(runtime, { prompt: "go", runId }), RunStore, store)
      )
      yield* until(() => model.requests.length === 6)
      reads = 0
      yield* sendMessage(runId, "first")
      yield* Deferred.await(reading)
      yield* sendMessage(runId, "second")
      yield* TestClock.adjust("1 minute")
      for (let times = 0; times < 100; times++) yield* Effect.yieldNow
      yield* Deferred.succeed(read, undefined)
      for (let times = 0; times < 100; times++) yield* Effect.yieldNow
      // The run reads both messages, and one of its sub-agents the second.
      assert.isAtMost(reads, 3)
      yield* Fiber.interrupt(running)
    })
  )
})

describe("a run without sub-agents", () => {
  stored(
    "reads a message that is sent during a read-only tool in the next model call, also if no notification arrives",
    Effect.gen(function* () {
      const store = yield* RunStore
      const look = safe("look", {
        handler: () =>
          Effect.as(
            Effect.orDie(Effect.provideService(sendMessage(runId, "also this"), RunStore, store)),
            "seen"
          ) as never
      })
      const model = scripted({ ops: [{ calls: [call("look", "1")] }, "done"] })
      const { runtime } = yield* rebind(Agent.make("ops", { tools: [look.tool] }), model)
      const silent = { ...store, changes: Stream.never }
      const running = runPromptStored(runtime, { prompt: "go", runId })
      expect(yield* Effect.provideService(running, RunStore, silent), "completed")
      assert.include(JSON.stringify(model.requests[1]?.messages), "also this")
    })
  )

  for (const [what, answer] of Object.entries(atWork)) {
    stored(
      `is cancelled during ${what}`,
      Effect.gen(function* () {
        const { runtime } = yield* rebind(
          Agent.make("ops", { tools: slowTools }),
          scripted({ ops: [answer] })
        )
        const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }))
        const store = yield* RunStore
        yield* Effect.repeat(Effect.andThen(Effect.yieldNow, Effect.exit(store.head(runId))), {
          until: (exit) => exit._tag === "Success"
        })
        for (let times = 0; times < 20; times++) yield* Effect.yieldNow
        yield* store.requestCancel(runId, "enough")
        const { reason, state } = expect(yield* Fiber.join(running), "cancelled")
        assert.strictEqual(reason, "enough")
        assert.isTrue(results(state).every((result) => !result.includes("completed")))
      })
    )
  }
})
