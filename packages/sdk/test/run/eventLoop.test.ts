import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import type { SessionId } from "../../src/domain/Id.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { approve as approved } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, call, expect, probe, rebind, safe } from "../helpers/Fixture.ts"

/** Counts the ticks of a timer. */
const ticking = () => {
  const told = { ticks: 0 }
  const timer = setInterval(() => {
    told.ticks += 1
  }, 1)
  return { told, stop: () => clearInterval(timer) }
}

/** Enough ticks to show that the event loop turns. */
const enough = 5

/** Time limit: a loop that has not turned by then is starved. */
const longestMs = 20_000

/** Repeats `once` until the timer has ticked often enough. */
const starving = async (once: (told: { readonly ticks: number }) => Promise<unknown>): Promise<void> => {
  const { stop, told } = ticking()
  try {
    const began = performance.now()
    while (told.ticks < enough && performance.now() - began < longestMs) await once(told)
    assert.isAtLeast(told.ticks, enough)
  } finally {
    stop()
  }
}

const read = safe("read").tool
const talkative = () =>
  ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [call("read", "1")] } : "done"))
const inMemory = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.provide(effect, Layer.fresh(layerMemory))

describe("the event loop turns while a program awaits runs whose model answers synchronously", () => {
  it("in sequence, without a store", async () => {
    const { runtime } = await Effect.runPromise(rebind(Agent.make("a", { tools: [read] }), talkative()))
    await starving(() => Effect.runPromise(runPrompt(runtime, { prompt: "go" })))
  })

  it("in sequence, with a store", async () => {
    await using fermata = await Fermata.make({
      agents: [agent("a", { tools: [tool("read", { safety: "readOnly", handler: () => "" })] })],
      model: ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "read" }] } : "done")).client,
      store: layerMemory
    })
    await starving(() => fermata.runPrompt("a", "go"))
  })

  it("in sequence, each held and released", async () => {
    await using fermata = await Fermata.make({
      agents: [agent("a", { tools: [tool("write", { handler: () => "" })] })],
      model: ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "write" }] } : "done")).client,
      store: layerMemory
    })
    await starving(async () => {
      const run = await fermata.runPrompt("a", "go")
      if (run.status !== "interrupted") return assert.fail(run.status)
      await fermata.decide(run.interruptions[0]!, approved())
      await fermata.resume(run.runId)
    })
  })

  it("concurrently, with sub-agents", async () => {
    const worker = Agent.make("worker", { tools: [read] })
    const model = ScriptedModel.make(({ agentPath, turn }) => {
      if (agentPath.length > 1) return turn < 20 ? { calls: [call("read", "1")] } : "done"
      const calls = Array.from({ length: 8 }, () => ({ tool: "worker", arguments: { prompt: "go" } }))
      return turn === 1 ? { calls } : "done"
    })
    const lead = Agent.make("a", { subAgents: [worker], limits: { maxTurns: 100 } })
    const { runtime } = await Effect.runPromise(rebind(lead, model))
    const one = runPrompt(runtime, { prompt: "go", limits: { maxTurns: 100 } })
    await starving(() => Effect.runPromise(Effect.all([one, one, one, one], { concurrency: "unbounded" })))
  })

  it("in sequence, each refused at once or impossible to resume", async () => {
    const { tool } = probe("write")
    const model = ScriptedModel.make(() => ({ calls: [call("write", "1")] }))
    const { runtime } = await Effect.runPromise(rebind(Agent.make("a", { tools: [tool] }), model))
    const changed = await Effect.runPromise(rebind(Agent.make("a"), model))
    const store = await Effect.runPromise(inMemory(RunStore))
    const stored = <A, E>(effect: Effect.Effect<A, E, RunStore>) =>
      Effect.runPromise(Effect.provideService(effect, RunStore, store))
    const once = runPromptStored(runtime, { prompt: "go", sessionId: "s" as SessionId })
    const { interruptions } = expect(await stored(once), "interrupted")
    await starving(() => stored(Effect.flip(once)))
    await stored(decideStored([runtime], approve(interruptions[0]!)))
    await starving(async () => {
      const [{ error } = {}] = await stored(recover([changed.runtime]))
      assert.strictEqual(error?._tag, "ToolUnavailable")
    })
  })

  it("and while it calls `pending` of a Fermata in sequence", async () => {
    await using fermata = await Fermata.make({
      agents: [agent("a")],
      model: ScriptedModel.make([]).client,
      store: layerMemory
    })
    await starving(() => fermata.pending())
  })

  it("in sequence, each recovered", async () => {
    const write = probe("write")
    const model = ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [call("write", "1")] } : "done"))
    const { runtime } = await Effect.runPromise(rebind(Agent.make("a", { tools: [write.tool] }), model))
    const store = await Effect.runPromise(inMemory(RunStore))
    const stored = <A, E>(effect: Effect.Effect<A, E, RunStore>) =>
      Effect.runPromise(Effect.provideService(effect, RunStore, store))
    await starving(async () => {
      const { interruptions } = expect(
        await stored(runPromptStored(runtime, { prompt: "go" })),
        "interrupted"
      )
      await stored(decideStored([runtime], approve(interruptions[0]!)))
      await stored(recover([runtime]))
    })
  })
})
