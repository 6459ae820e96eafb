import { assert, describe, it } from "@effect/vitest"
import { approve } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isRunNotFound } from "../../src/promise/guards.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { rejection } from "../helpers/rejection.ts"

const delegate = (to: string) => ({
  tool: "delegate",
  arguments: { agent: to, prompt: "do", background: true }
})

/** A lead with two background sub-agents, each held on `pay`. */
const open = () => {
  const pay = tool("pay", { handler: () => "paid" })
  const model = ScriptedModel.make(({ agentPath, turn }) => {
    if (turn > 1) return `${agentPath.at(-1)} is done`
    return { calls: agentPath.length === 1 ? [delegate("scout"), delegate("writer")] : [{ tool: "pay" }] }
  })
  const lead = agent("lead", {
    subAgents: [agent("scout", { tools: [pay] }), agent("writer", { tools: [pay] })],
    delegation: "delegate"
  })
  return Fermata.make({ agents: [lead], model: model.client, store: layerMemory, drainTimeout: 20 })
}

describe("a sub-agent of a Fermata", () => {
  it("receives messages, decisions, cancellations and explanations by its own run id", async () => {
    await using fermata = await open()
    const root = await fermata.dispatch("lead", "go", { runId: "run" })
    await root.wait()
    await fermata.send("run.t1.2", "In blue, please.")
    const writer = await fermata.attach("run.t1.2")
    assert.strictEqual(writer.status, "held")
    await fermata.cancel("run.t1.1", "not needed")
    const scout = await (await fermata.attach("run.t1.1")).done()
    assert.strictEqual(scout.status === "cancelled" ? scout.reason : scout.status, "not needed")
    assert.include((await fermata.explain("run.t1.1")).text, "was cancelled: not needed.")
    const [request, ...others] = writer.interruptions()
    assert.strictEqual(others.length, 0)
    await writer.decide(request!, approve())
    const done = await writer.done()
    assert.strictEqual(done.status === "completed" ? done.text : done.status, "writer is done")
    assert.strictEqual((await root.done()).status, "completed")
    const { history } = await fermata.state("run.t1.2")
    assert.include(JSON.stringify(history), "In blue, please.")
  })

  it("publishes its own events by its run id, numbered from 1, until it is held or ended", async () => {
    await using fermata = await open()
    await fermata.runPrompt("lead", "go", { runId: "run" })
    const all = async (options?: Fermata.EventsOptions) => {
      const seen: Array<string> = []
      for await (const update of fermata.events("run.t1.1", options)) {
        assert.strictEqual(update.runId, "run.t1.1")
        if (update._tag === "event") seen.push(`${update.revision} ${update.event._tag}`)
      }
      return seen
    }
    const held = await all()
    assert.strictEqual(held[0], "1 run.started")
    assert.match(held.at(-1)!, /run\.held$/)
    assert.deepStrictEqual(await all({ from: 2 }), held.slice(2))

    const toTheEnd = all({ until: "end" })
    const [request] = await fermata.pending({ runId: "run" })
    await fermata.decide(request!, approve())
    const resumed = fermata.resume("run")
    const ended = await toTheEnd
    assert.strictEqual((await resumed).status, "interrupted")
    assert.deepStrictEqual(ended.slice(0, held.length), held)
    assert.match(ended.at(-1)!, /run\.completed$/)
    assert.deepStrictEqual(await all(), ended)
  })

  it("ends its events when it is held, although its lead still runs", async () => {
    const isAt = Promise.withResolvers<void>()
    const leave = Promise.withResolvers<string>()
    const pay = tool("pay", { handler: () => "paid" })
    const look = tool("look", {
      safety: "readOnly",
      handler: () => {
        isAt.resolve()
        return leave.promise
      }
    })
    const model = ScriptedModel.make(({ agentPath, turn }) => {
      if (agentPath.length > 1) return { calls: [{ tool: "pay" }] }
      return turn === 1 ? { calls: [delegate("scout")] } : turn === 2 ? { calls: [{ tool: "look" }] } : "done"
    })
    const lead = agent("lead", {
      subAgents: [agent("scout", { tools: [pay] })],
      delegation: "delegate",
      tools: [look]
    })
    await using fermata = await Fermata.make({ agents: [lead], model: model.client, store: layerMemory })
    const handle = await fermata.dispatch("lead", "go", { runId: "run" })
    await isAt.promise
    const seen: Array<string> = []
    for await (const update of fermata.events("run.t1.1"))
      if (update._tag === "event") seen.push(update.event._tag)
    assert.include(seen, "request.opened")
    assert.strictEqual(handle.status, "running")
    leave.resolve("seen")
    await handle.wait()
  })

  it("has no events under the id of an unknown sub-agent", async () => {
    await using fermata = await open()
    await fermata.runPrompt("lead", "go", { runId: "run" })
    for (const id of ["run.t1.9", "run.t7.1", "other.t1.1"]) {
      const error = await rejection(fermata.events(id)[Symbol.asyncIterator]().next())
      assert.isTrue(isRunNotFound(error), id)
    }
  })

  it("cannot be resumed, forked, exported or removed by its own run id, and the error names its root", async () => {
    await using fermata = await open()
    await fermata.runPrompt("lead", "go", { runId: "run" })
    const calls: ReadonlyArray<() => Promise<unknown>> = [
      () => fermata.resume("run.t1.1"),
      () => fermata.fork("run.t1.1", "or else"),
      () => fermata.exportRun("run.t1.1"),
      () => fermata.remove("run.t1.1"),
      () => fermata.rewindPoints("run.t1.1"),
      () => fermata.checkResume("run.t1.1")
    ]
    for (const call of calls) {
      const error = await rejection(call())
      assert.isTrue(isRunNotFound(error))
      assert.include(String(error), "Pass the id of run")
    }
    assert.strictEqual((await fermata.state("run")).status, "held")
  })
})
