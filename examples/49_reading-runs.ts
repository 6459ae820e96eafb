/**
 * @title Streaming a run, and reading it from a program that never drives it
 *
 * The desk streams the text of a run until the run is held. The office, another program with the same store, reads the result, the session
 * and its messages, decides, and sends the rest of the events to a browser. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, approve, createFermata, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const pay = tool("pay", { handler: () => "paid" })
const clerk = agent("clerk", { tools: [pay] })

const open = (model: ScriptedModel.ScriptedModel) => createFermata({ agents: [clerk], model: model.client })

export const main = async () => {
  const model = ScriptedModel.make([
    { text: "I will pay it.", chunkSize: 7, calls: [{ tool: "pay" }] },
    "It is paid."
  ])
  await using desk = await open(model)
  const stream = desk.stream(clerk, "Pay the bill.", { sessionId: "bills" })
  let said = ""
  for await (const text of stream) said += text
  assert.equal(said, "I will pay it.")
  assert.equal((await stream.result).status, "interrupted")

  const unused = ScriptedModel.make([])
  await using office = await open(unused)
  const [session] = await office.sessions({ status: "held" })
  assert.equal(session?.last.runId, stream.runId)
  const messages = await office.messages("bills")
  assert.deepEqual(
    messages.map(({ role }) => role),
    ["user", "assistant"]
  )
  const held = await office.result(stream.runId, { agent: clerk })
  assert(held.status === "interrupted")
  await office.decide(held.interruptions[0]!, approve(), { by: "ana" })
  assert.equal((await office.result(stream.runId)).status, "running")

  // A browser that has the events up to the hold receives the others.
  const request = new Request("http://localhost", {
    headers: { "last-event-id": String(session.last.revision) }
  })
  const response = await office.eventsResponse(stream.runId, { request })
  const [sent] = await Promise.all([response.text(), desk.recover()])
  assert.match(sent, /^event: end\ndata: {"status":"completed"}$/m)

  const ended = await office.result(stream.runId, { agent: clerk })
  assert.equal(ended.status === "completed" ? ended.text : ended.status, "It is paid.")
  assert.equal(unused.requests.length, 0)
  console.log(sent)
}

if (import.meta.main) await main()
