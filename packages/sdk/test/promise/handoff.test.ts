import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Agent } from "../../src/agent/AgentDefinition.ts"
import { approve } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isAgentNotFound, isPolicyFixed } from "../../src/promise/guards.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { rejection } from "../helpers/rejection.ts"

const refund = tool("refund", { handler: () => "refunded" })
const desk: Agent = agent("desk", { handoffs: () => [billing] })
const billing: Agent = agent("billing", { tools: [refund], handoffs: () => [desk] })

const script: ReadonlyArray<ScriptedModel.Script> = [
  { calls: [{ tool: "transfer_to_billing" }] },
  "billing here",
  { calls: [{ tool: "refund" }] },
  "refunded",
  "and one more"
]

/** Runs the body with programs that share a store and a model, closes them, and returns the agents in order of their model calls. */
const programs = async (
  body: (open: (...agents: ReadonlyArray<Agent>) => Promise<Fermata.Fermata>) => Promise<void>
) => {
  const store = Layer.succeed(RunStore, Effect.runSync(Effect.provide(RunStore, layerMemory)))
  const model = ScriptedModel.make(script)
  const opened: Array<Fermata.Fermata> = []
  const who = () => model.requests.map(({ agentPath }) => agentPath.join())
  try {
    await body(async (...agents) => {
      const fermata = await Fermata.make({ agents, model: model.client, store, drainTimeout: 20 })
      opened.push(fermata)
      return fermata
    })
  } finally {
    for (const fermata of opened) await fermata.close()
  }
  return who()
}

const sessionId = "s"

describe("an agent whose handoffs cannot be read", () => {
  it("is refused with a sentence when its Fermata is created", async () => {
    const lost = agent("lost", {
      handoffs: () => {
        throw new Error("not yet")
      }
    })
    const error = await rejection(
      Fermata.make({ agents: [lost], model: ScriptedModel.make([]).client, store: layerMemory })
    )
    assert.strictEqual(error._tag, "AgentDefinitionError")
    assert.include(error.message, 'its "handoffs" failed: not yet')
  })
})

describe("a session of a Fermata after a handoff", () => {
  it("is continued by the agent that took over when the prompt names the first agent", async () => {
    const who = await programs(async (open) => {
      const first = await open(desk)
      await first.runPrompt("desk", "hello", { sessionId })
      // Another process, with both agents in another order.
      const second = await open(billing, desk)
      const held = await second.runPrompt("desk", "refund me", { sessionId })
      assert.deepStrictEqual(await second.checkResume(held.runId), { changes: [], blocking: [] })
      assert.deepStrictEqual(
        (await second.runs()).map(({ agent, answeredBy }) => [agent, answeredBy]),
        [
          ["desk", "billing"],
          ["desk", "billing"]
        ]
      )
      const third = await open(desk)
      const handle = await third.attach(held.runId)
      for (const request of handle.interruptions()) await handle.decide(request, approve())
      assert.strictEqual((await handle.done()).status, "completed")
      await third.runPrompt("desk", "thanks", { sessionId, answeredBy: "desk" })
    })
    assert.deepStrictEqual(who, ["desk", "billing", "billing", "billing", "desk"])
  })

  it("is recovered by a program with the session's first agent", async () => {
    await programs(async (open) => {
      const first = await open(desk)
      await first.runPrompt("desk", "hello", { sessionId })
      const held = await first.runPrompt("desk", "refund me", { sessionId })
      const stranger = await open(billing)
      const [request] = await stranger.pending()
      await stranger.decide(request!, approve())
      assert.deepStrictEqual(await stranger.recover(), [])
      const [taken] = await (await open(desk)).recover()
      assert.deepInclude({ ...taken }, { runId: held.runId, agent: "desk", status: "completed" })
    })
  })

  it("rejects a prompt with AgentNotFound when its agent is gone, unless `answeredBy` names another one", async () => {
    await programs(async (open) => {
      await (await open(desk)).runPrompt("desk", "hello", { sessionId })
      const alone = await open(agent("desk"))
      const error = await rejection(alone.runPrompt("desk", "refund me", { sessionId }))
      assert.isTrue(isAgentNotFound(error))
      assert.include(String(error), "answeredBy")
      assert.strictEqual((await alone.runs()).length, 1)
      const [last] = await alone.runs()
      assert.isTrue(isAgentNotFound(await rejection(alone.resume(last!.runId, { prompt: "refund me" }))))
      const asked = await alone.resume(last!.runId, { prompt: "refund me", answeredBy: "desk" })
      assert.strictEqual(asked.status, "completed")
      const done = await alone.runPrompt("desk", "thanks", { sessionId })
      assert.strictEqual(done.status, "completed")
    })
  })

  it("keeps a held run held when its agent is gone, and checkResume names that agent", async () => {
    await programs(async (open) => {
      const first = await open(desk)
      await first.runPrompt("desk", "hello", { sessionId })
      const held = await first.runPrompt("desk", "refund me", { sessionId })
      const alone = await open(agent("desk"))
      const { blocking } = await alone.checkResume(held.runId)
      assert.deepStrictEqual(
        blocking.map(({ _tag }) => _tag),
        ["AgentNotFound"]
      )
      assert.include(blocking[0]?.message, '"billing"')
      assert.isTrue(isAgentNotFound(await rejection(alone.resume(held.runId, { prompt: "now?" }))))
      assert.strictEqual((await first.resume(held.runId)).status, "interrupted")
      assert.strictEqual((await (await open(agent("other"))).checkResume(held.runId)).blocking.length, 1)
    })
  })
})

describe("the caller's policy of a Fermata's run", () => {
  const pay = tool("pay", { handler: () => "paid" })
  const ops: Agent = agent("ops", { tools: [pay], policy: { mode: "all" } })
  const ask = { mode: "ask" } as const
  const limits = { maxTokens: 5000 }

  const opened = async (body: (fermata: Fermata.Fermata) => Promise<void>) => {
    const model = ScriptedModel.make(({ messages }) =>
      messages.at(-1)?.role === "user" ? { calls: [{ tool: "pay" }] } : "done"
    )
    const store = Layer.succeed(RunStore, Effect.runSync(Effect.provide(RunStore, layerMemory)))
    const fermata = await Fermata.make({ agents: [ops], model: model.client, store, drainTimeout: 20 })
    try {
      await body(fermata)
    } finally {
      await fermata.close()
    }
  }

  it("applies to a continuing run unless another one is given", () =>
    opened(async (fermata) => {
      const held = await fermata.runPrompt("ops", "go", { policy: ask, limits })
      assert.isTrue(isPolicyFixed(await rejection(fermata.resume(held.runId, { policy: { mode: "all" } }))))
      await fermata.cancel(held.runId)
      const next = await fermata.resume(held.runId, { prompt: "again" })
      assert.strictEqual(next.status, "interrupted")
      assert.deepStrictEqual([next.state.policy, next.state.limits.maxTokens], [ask, 5000])
      await fermata.cancel(next.runId)
      const given = { prompt: "again", policy: { mode: "all" } } as const
      const done = await fermata.resume(next.runId, given)
      assert.deepStrictEqual([done.status, done.state.limits.maxTokens], ["completed", 5000])
    }))

  it("applies to a fork, also through a handle, unless another one is given", () =>
    opened(async (fermata) => {
      const handle = await fermata.dispatch("ops", "go", { policy: ask, limits })
      await handle.wait()
      const fork = await handle.send("again", { whenHeld: "fork" })
      const held = await fork.wait()
      assert.deepStrictEqual([held.status, held.state.limits.maxTokens], ["interrupted", 5000])
      assert.strictEqual((await fermata.fork(handle.runId, "again")).status, "interrupted")
      const loose = await handle.send("again", { whenHeld: "fork", policy: { mode: "all" } })
      assert.strictEqual((await loose.done()).status, "completed")
    }))

  it("is taken by a conductor", () =>
    opened(async (fermata) => {
      await using conductor = await fermata.conductor()
      const handle = await conductor.dispatch("ops", "go", { policy: ask, limits })
      const held = await handle.wait()
      assert.deepStrictEqual([held.status, held.state.limits.maxTokens], ["interrupted", 5000])
    }))
})
