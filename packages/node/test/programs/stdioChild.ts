/**
 * A child process that serves a clerk on standard input and output; its argument is the file of its store.
 */
import { agent, createFermata, serveStdio, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const pay = tool("pay", { handler: () => "paid" })
const { client: model } = ScriptedModel.make(({ turn }) =>
  turn % 2 === 1 ? { calls: [{ tool: "pay" }] } : "It is paid."
)
await using fermata = await createFermata({
  agents: [agent("clerk", { tools: [pay] })],
  model,
  store: process.argv[2]
})
await serveStdio(fermata, { by: { id: "parent", kind: "service" }, maxLineBytes: 1000 })
