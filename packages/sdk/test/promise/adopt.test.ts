import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { agent } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

const memory = async () =>
  Layer.succeed(RunStore, await Effect.runPromise(Effect.provide(RunStore, Layer.fresh(layerMemory))))

const open = (store: Fermata.FermataOptions["store"], script: ReadonlyArray<ScriptedModel.Script>) =>
  Fermata.make({
    agents: [agent("reader")],
    model: ScriptedModel.make(script).client,
    store,
    drainTimeout: 200
  })

describe("a conductor of a Fermata", () => {
  it("adopts the queued runs of a closed Fermata by its name", async () => {
    const store = await memory()
    const first = await open(store, [{ hang: true }])
    const before = await first.conductor({ name: "nightly", concurrency: 1 })
    const running = await before.dispatch("reader", "Read Emma.")
    const queued = await before.dispatch("reader", "Read Ulysses.", { name: "read/2" })
    assert.deepStrictEqual([running.status, queued.status], ["running", "queued"])
    assert.include(await first.explain(queued.runId), { status: "held" })
    await first.close()
    assert.strictEqual(queued.status, "suspended")

    await using second = await open(store, ["Read.", "Read."])
    const stranger = await second.conductor({ concurrency: 1 })
    assert.deepStrictEqual(await stranger.adopt(), [])
    const after = await second.conductor({ name: "nightly", concurrency: 1 })
    const adopted = await after.adopt()
    assert.deepStrictEqual(
      adopted.map(({ name, runId }) => [runId, name]),
      [
        [running.runId, undefined],
        [queued.runId, "read/2"]
      ]
    )
    for (const { status } of await after.all(adopted)) assert.strictEqual(status, "completed")
    assert.strictEqual(after.spending().spent.runs, 2)
  })
})
