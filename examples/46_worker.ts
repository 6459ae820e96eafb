/**
 * @title A worker: one program records decisions, another resumes the runs
 *
 * Both programs have the same agents and the same store. The worker sleeps until a run is ready: decided, expired, or orphaned by a
 * dead process. Stopping the worker ends no run. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, approve, closeOnSignal, createFermata, deny, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const open = (owner: string) => {
  const pay = tool("pay", { approval: { expiresIn: "3 days" }, handler: () => `paid by ${owner}` })
  const model = ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "pay" }] } : "Settled."))
  return createFermata({ agents: [agent("clerk", { tools: [pay] })], model: model.client, owner })
}

export const main = async () => {
  await using desk = await open("the desk")
  await using worker = await open("the worker")
  // SIGTERM and Ctrl+C close the worker, which suspends its runs, and end the program.
  const stopListening = closeOnSignal([worker])
  const takenUp: Array<string> = []
  const settled = Promise.withResolvers<void>()
  const stop = new AbortController()
  const working = worker.work({
    signal: stop.signal,
    onTakenUp: ({ reason, runId, status }) => {
      takenUp.push(`${runId} was ${reason}, and is ${status}`)
      if (takenUp.length === 2) settled.resolve()
    }
  })

  await desk.runPrompt("clerk", "Pay the first bill", { runId: "bill-1" })
  await desk.runPrompt("clerk", "Pay the second bill", { runId: "bill-2" })
  console.log((await desk.explain("bill-1")).text)

  const [first, second] = await desk.pending()
  const decided = await desk.decide(first!, approve(), { by: "ana", idempotencyKey: "click-1" })
  // A repeated decision with the same key returns the result of the first one.
  const again = await desk.decide(first!, approve(), { by: "ana", idempotencyKey: "click-1" })
  assert.deepEqual(again, decided)
  await desk.decide(second!, deny("Not this one."), { by: "ana" })

  await settled.promise
  assert.deepEqual(takenUp.toSorted(), [
    "bill-1 was decided, and is completed",
    "bill-2 was decided, and is completed"
  ])
  console.log(takenUp.join("\n"))

  // A run that the worker is driving would stay in the store for the next worker.
  stop.abort()
  await working
  stopListening()
}

if (import.meta.main) await main()
