import { assert, describe, it } from "@effect/vitest"
import { approve } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isRunNotFound } from "../../src/promise/guards.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

const delegate = (to: string) => ({
  tool: "delegate",
  arguments: { agent: to, prompt: "do", background: true }
})

/** A lead with a scout and a writer in the background, both held on paying. */
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

const rejected = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => assert.fail("it did not reject"),
    (error: unknown) => error
  )

describe("a sub-agent of a Fermata, by its own run", () => {
  it("is told things, decided, cancelled and explained", async () => {
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

  it("is gone on with, forked, exported and removed as a part of the run that it lies in, and says so", async () => {
    await using fermata = await open()
    await fermata.runPrompt("lead", "go", { runId: "run" })
    for (const refused of [
      fermata.resume("run.t1.1"),
      fermata.fork("run.t1.1", "or else"),
      fermata.exportRun("run.t1.1"),
      fermata.remove("run.t1.1"),
      fermata.rewindPoints("run.t1.1"),
      fermata.checkResume("run.t1.1")
    ]) {
      const error = await rejected(refused)
      assert.isTrue(isRunNotFound(error))
      assert.include(String(error), "lies in that of run; pass that id")
    }
    assert.strictEqual((await fermata.state("run")).status, "held")
  })
})
