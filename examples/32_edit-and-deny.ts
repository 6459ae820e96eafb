/**
 * @title Four calls, four decisions
 *
 * One answer of the model contains four transfers. All of them are held, and different people decide them one by one: one is
 * approved, one edited, one denied, and one was done by hand and gets a supplied result. The model is called again when all four have
 * a result. A denial with `then: "stop"` ends the run instead. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, approve, createFermata, deny, Schema, supply, tool } from "@fermata/node"
import { isAlreadyDecided, isEditedArgumentsInvalid } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

export const main = async () => {
  const ran: Array<string> = []
  const transfer = tool("transfer", {
    parameters: Schema.Struct({ to: Schema.String, euros: Schema.Finite }),
    handler: ({ to, euros }) => {
      ran.push(`${euros} to ${to}`)
      return "done"
    }
  })
  const payday = {
    calls: ["Ada", "Bo", "Cleo", "Dan"].map((to) => ({ tool: "transfer", arguments: { to, euros: 900 } }))
  }
  const model = ScriptedModel.make([payday, "All four are settled.", payday])
  await using fermata = await createFermata({
    agents: [agent("payroll", { tools: [transfer] })],
    model: model.client
  })

  const held = await fermata.runPrompt("payroll", "Pay everybody.")
  assert(held.status === "interrupted")
  const [ada, bo, cleo, dan] = held.interruptions
  assert(ada && bo && cleo && dan)

  // Two decided calls run; the run is held again on the other two, without a model call in between.
  await fermata.decide(cleo, deny("Cleo has left us."), { by: "ana" })
  await fermata.decide(ada, approve(), { by: "ana" })
  const again = await fermata.resume(held.runId)
  assert(again.status === "interrupted")
  assert.deepEqual(again.interruptions, [bo, dan])
  assert.deepEqual(ran, ["900 to Ada"])
  assert.equal(model.requests.length, 1)

  // Edited arguments must match the tool's schema; otherwise the request stays open. A second decision changes nothing.
  const wrong = approve({ arguments: { to: "Bo", euros: "half" } })
  await assert.rejects(fermata.decide(bo, wrong), isEditedArgumentsInvalid)
  await fermata.decide(bo, approve({ arguments: { to: "Bo", euros: 450 } }), { by: "ben" })
  await fermata.decide(dan, supply("paid in cash, receipt 117"), { by: "ben" })
  await assert.rejects(fermata.decide(ada, deny(), { by: "ben" }), isAlreadyDecided)

  const done = await fermata.resume(held.runId)
  assert(done.status === "completed")
  assert.deepEqual(ran, ["900 to Ada", "450 to Bo"])
  // The model receives the results in the order of its calls, with the arguments that ran.
  const results = model.requests[1]?.messages.flatMap((message) =>
    message.role === "tool" ? [`${message.outcome}: ${JSON.stringify(message.content)}`] : []
  )
  assert.deepEqual(
    results?.map((line) => line.split(":")[0]),
    ["completed", "completed", "denied", "supplied"]
  )
  for (const line of results ?? []) console.log(line)

  const second = await fermata.runPrompt("payroll", "And again.", { sessionId: held.sessionId })
  assert(second.status === "interrupted" && second.interruptions[0])
  await fermata.decide(second.interruptions[0], deny("Not before the audit.", { then: "stop" }), {
    by: "ana"
  })
  const stopped = await fermata.resume(second.runId)
  assert(stopped.status === "cancelled")
  assert.deepEqual(ran, ["900 to Ada", "450 to Bo"])
  console.log(stopped.status, stopped.reason)
}

if (import.meta.main) await main()
