/** Opens a store at a URL and closes it when its input ends; nothing else then keeps the process alive. */
import { agent, createFermata } from "@fermata/node"
import { PostgresStore } from "@fermata/node/postgres"
import { ScriptedModel } from "@fermata/node/testing"

const fermata = await createFermata({
  agents: [agent("idle")],
  model: ScriptedModel.make(() => "done").client,
  store: PostgresStore.layer({ url: process.argv[2]!, answerTimeout: "1 hour" })
})
await fermata.runs()
process.stdout.write("ready\n")
process.stdin.once("end", () => void fermata.close()).resume()
