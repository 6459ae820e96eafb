/**
 * Resumes a held run whose gated body ends at a line of input. Prints `in body` when the body has begun, and the status of the run.
 */
import { agent, createFermata, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const [store = "", runId = "", owner = ""] = process.argv.slice(2)
const act = tool("act", {
  handler: async () => {
    process.stdout.write("in body\n")
    await new Promise((resolve) => process.stdin.once("data", resolve))
    process.stdin.destroy()
    return "acted"
  }
})
const model = ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "act" }] } : "It is done."))
await using fermata = await createFermata({
  agents: [agent("actor", { tools: [act] })],
  model: model.client,
  store,
  owner
})
const end = await fermata.resume(runId)
process.stdout.write(`${end.status}\n`)
