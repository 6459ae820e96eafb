/**
 * A process that runs prompts in a session with memory, one after the other, and says when each has ended. It runs until it is killed.
 */
import { agent, createFermata } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const [store = "", sessionId = ""] = process.argv.slice(2)
const model = ScriptedModel.make(({ messages }) => `Answer ${messages.length}: a heron on the quay.`)
const fermata = await createFermata({
  agents: [agent("clerk")],
  model: model.client,
  store,
  memory: true,
  leaseTtl: "1 second"
})
for (let index = 0; ; index += 1) {
  await fermata.runPrompt("clerk", `Question ${index}: which bird is on the quay?`, { sessionId })
  console.log(index)
}
