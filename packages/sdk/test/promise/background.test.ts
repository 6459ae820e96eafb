import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { approve, deny } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isRunSuspended } from "../../src/promise/guards.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { timeSpent } from "../helpers/timeSpent.ts"

const shared = () => Layer.succeed(RunStore, Effect.runSync(Effect.provide(RunStore, layerMemory)))

const open = (store = shared()) => {
  const paid: Array<string> = []
  const pay = tool("pay", {
    handler: () => {
      paid.push("paid")
      return "paid"
    }
  })
  const model = ScriptedModel.make(({ messages, turn }) => {
    const prompt = JSON.stringify(messages[0])
    if (prompt.includes("hang")) return { hang: true }
    return prompt.includes("pay") && turn === 1 ? { calls: [{ tool: "pay" }] } : "done"
  })
  const made = Fermata.make({
    agents: [agent("clerk", { tools: [pay] })],
    model: model.client,
    store,
    drainTimeout: 50,
    cancelGrace: 20
  })
  return { made, paid }
}

const rejects = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => assert.fail("it did not reject"),
    (error: unknown) => error
  )

describe("a background run", () => {
  it("is explained, decided and awaited through its handle", async () => {
    const { made, paid } = open()
    await using fermata = await made
    const handle = await fermata.dispatch("clerk", "pay the bill", { runId: "bill-1" })
    const held = await handle.wait()
    assert.strictEqual(held.status, "interrupted")
    assert.strictEqual(handle.status, "held")
    assert.include((await handle.explain()).text, "It waits for approval of pay")
    const [request] = handle.interruptions()
    await handle.decide(request!, approve(), { by: "ana" })
    const done = await handle.done()
    assert.strictEqual(done.status === "completed" ? done.text : done.status, "done")
    assert.deepStrictEqual(paid, ["paid"])
    const seen: Array<string> = []
    for await (const update of handle.events()) if (update._tag === "event") seen.push(update.event._tag)
    assert.strictEqual(seen[0], "run.started")
    assert.strictEqual(seen.at(-1), "run.completed")
  })

  it("is attached and resumed by id in another program", async () => {
    const store = shared()
    {
      await using first = await open(store).made
      await (await first.dispatch("clerk", "pay", { runId: "bill-2" })).wait()
    }
    const { made, paid } = open(store)
    await using second = await made
    const handle = await second.attach("bill-2")
    assert.strictEqual(handle.status, "held")
    await second.decide(handle.interruptions()[0]!, approve())
    assert.strictEqual((await handle.done()).status, "completed")
    assert.deepStrictEqual(paid, ["paid"])
  })

  it("is suspended when the program closes, and cancelled by its handle", async () => {
    const store = shared()
    const fermata = await open(store).made
    const hanging = await fermata.dispatch("clerk", "hang", { runId: "hanging" })
    const ended = await fermata.dispatch("clerk", "hang", { runId: "ended" })
    assert.strictEqual((await ended.cancel("enough")).status, "cancelled")
    const left = rejects(hanging.done())
    await fermata.close()
    assert.isTrue(isRunSuspended(await left))
    await using next = await open(store).made
    assert.strictEqual((await next.state("hanging")).status, "running")
    assert.strictEqual((await next.state("ended")).status, "cancelled")
  })
})

describe("`close` of a Fermata", () => {
  it("waits for background runs no longer than for others", async () => {
    const fermata = await open().made
    const hanging = await fermata.dispatch("clerk", "hang")
    const left = rejects(hanging.done())
    const spent = timeSpent()
    await fermata.close()
    assert.isTrue(isRunSuspended(await left))
    // Grace period and drain timeout are 70 ms here; by default they are 2 seconds.
    assert.isBelow(spent().waitedMs, 1500)
  })
})

describe("a conductor", () => {
  it("has one inbox for its runs, joins them, and cancels them by name", async () => {
    const { made } = open()
    await using fermata = await made
    await using conductor = await fermata.conductor({ concurrency: 2 })
    const quick = await conductor.dispatch("clerk", "read", { name: "team/quick" })
    const paying = await conductor.dispatch("clerk", "pay", { name: "team/paying" })
    const hanging = await conductor.dispatch("clerk", "hang", { name: "other/hanging" })
    const first = await conductor.firstSuccess([quick, hanging])
    assert.strictEqual(first.text, "done")
    assert.strictEqual((await hanging.done()).status, "cancelled")
    await paying.wait()
    const [entry] = conductor.inbox()
    assert.strictEqual(entry?.name, "team/paying")
    await conductor.decide(entry!, deny("no"))
    const results = await conductor.all([quick, paying])
    assert.deepStrictEqual(
      results.map(({ status }) => status),
      ["completed", "completed"]
    )
    const again = await conductor.dispatch("clerk", "hang", { name: "team/again" })
    assert.strictEqual(await conductor.cancel("team"), 1)
    assert.strictEqual(again.status, "cancelled")
    assert.deepStrictEqual(conductor.handles(), [])
  })
})

describe("the conductor of a closing Fermata", () => {
  it("waits for a stuck tool no longer than the Fermata", async () => {
    const began = Promise.withResolvers<void>()
    const stuck = tool("stuck", {
      needsApproval: false,
      handler: () => {
        began.resolve()
        return new Promise<never>(() => {})
      }
    })
    const fermata = await Fermata.make({
      agents: [agent("clerk", { tools: [stuck] })],
      model: ScriptedModel.make([{ calls: [{ tool: "stuck" }] }]).client,
      store: shared(),
      drainTimeout: 50,
      cancelGrace: 20
    })
    const conductor = await fermata.conductor()
    const handle = await conductor.dispatch("clerk", "go")
    const over = rejects(handle.done())
    await began.promise
    const spent = timeSpent()
    await fermata.close()
    // By itself, a conductor waits 2.5 seconds.
    assert.isBelow(spent().waitedMs, 2000)
    assert.isTrue(isRunSuspended(await over))
  })
})
