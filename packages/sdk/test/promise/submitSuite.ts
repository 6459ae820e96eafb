/**
 * What `submit` promises, on any store.
 */
import { assert, describe, it } from "@effect/vitest"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isRunExists, isSessionBusy } from "../../src/promise/guards.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

/** Returns an empty store that several Fermatas share. */
export const submitSuite = (name: string, share: () => Promise<Fermata.FermataOptions["store"]>) => {
  const open = async (
    store: Fermata.FermataOptions["store"],
    script: ReadonlyArray<ScriptedModel.Script>
  ) => {
    const model = ScriptedModel.make(script)
    const pay = tool("pay", { handler: () => "paid" })
    const fermata = await Fermata.make({
      agents: [agent("clerk", { tools: [pay] })],
      model: model.client,
      store
    })
    return { fermata, model }
  }

  describe(`a submitted run, stored in ${name}`, () => {
    it("is driven by a worker, and never by the program that submitted it", async () => {
      const store = await share()
      const desk = await open(store, [])
      const { runId, sessionId, status } = await desk.fermata.submit("clerk", "Pay.", { sessionId: "bills" })
      assert.deepStrictEqual([sessionId, status], ["bills", "running"])
      await desk.fermata.close()

      const worker = await open(store, [{ calls: [{ tool: "pay" }] }])
      const takenUp = Promise.withResolvers<unknown>()
      const working = worker.fermata.work({ onTakenUp: takenUp.resolve })
      assert.deepInclude(await takenUp.promise, { runId, reason: "orphaned", status: "held" })
      assert.lengthOf(await worker.fermata.pending({ runId }), 1)
      await worker.fermata.close()
      await working
      assert.strictEqual(desk.model.requests.length, 0)
    })

    it("is taken up at once by a worker that is already there", async () => {
      const store = await share()
      const worker = await open(store, ["Good morning."])
      const takenUp = Promise.withResolvers<unknown>()
      const working = worker.fermata.work({ pollInterval: "1 hour", onTakenUp: takenUp.resolve })
      const desk = await open(store, [])
      const { runId } = await desk.fermata.submit("clerk", "Hello?")
      assert.deepInclude(await takenUp.promise, { runId, status: "completed" })
      await worker.fermata.close()
      await working
      await desk.fermata.close()
    })

    it("is refused with RunExists if its id is repeated, and with SessionBusy if its session is at work", async () => {
      const { fermata } = await open(await share(), [])
      const submit = (options: Fermata.SubmitOptions) =>
        fermata.submit("clerk", "Pay.", options).catch((error: unknown) => error)
      await submit({ runId: "bill-1", sessionId: "bills" })
      assert.isTrue(isRunExists(await submit({ runId: "bill-1" })))
      assert.isTrue(isSessionBusy(await submit({ sessionId: "bills" })))
      assert.lengthOf(await fermata.runs(), 1)
      await fermata.close()
    })
  })
}
