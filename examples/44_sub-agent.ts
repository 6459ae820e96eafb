/**
 * @title A sub-agent that is held
 *
 * An agent can have other agents and calls them like tools. When one of them needs a decision, the request comes up in the run of
 * the root, with the path that leads to it; deciding it lets the sub-agent go on where it stood, and nothing runs again. A
 * sub-agent may never do more than the policies above it allow. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, approve, createFermata, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import { Schema } from "effect"

export const main = async () => {
  const ran: Array<string> = []
  const search = tool("search", {
    safety: "readOnly",
    handler: () => {
      ran.push("search")
      return "flight F7 at noon, 220 euros"
    }
  })
  const book = tool("book", {
    parameters: Schema.Struct({ flight: Schema.String }),
    preview: ({ flight }) => `Books ${flight} on the company's account.`,
    handler: ({ flight }) => {
      ran.push(`book ${flight}`)
      return "booked"
    }
  })
  const travel = agent("travel", { description: "Finds and books flights.", tools: [search, book] })
  const assistant = agent("assistant", { subAgents: [travel] })

  // One model for both: who asks is in the request.
  const model = ScriptedModel.make(({ agentPath, turn }) => {
    switch (`${agentPath.join("/")} ${turn}`) {
      case "assistant 1":
        return { calls: [{ tool: "travel", arguments: { prompt: "A flight to Turku tomorrow." } }] }
      case "assistant/travel 1":
        return { calls: [{ tool: "search" }] }
      case "assistant/travel 2":
        return { calls: [{ tool: "book", arguments: { flight: "F7" } }] }
      case "assistant/travel 3":
        return "F7 is booked."
      default:
        return "You fly at noon, with F7."
    }
  })
  await using fermata = await createFermata({ agents: [assistant], model: model.client, by: "ana" })

  const held = await fermata.runPrompt("assistant", "I have to be in Turku tomorrow.")
  assert(held.status === "interrupted")
  const [asked] = await fermata.pending({ agent: "travel" })
  assert(asked?.request._tag === "approval")
  assert.deepEqual(asked.request.agentPath, ["assistant", "travel"])
  // It is resumed by the root's run, wherever in the tree it was asked.
  assert.equal(asked.runId, held.runId)
  console.log(asked.request.agentPath.join(" > "), "asks:", asked.request.preview)

  await fermata.decide(asked, approve())
  const done = await fermata.resume(asked.runId)
  assert(done.status === "completed")
  assert.deepEqual(ran, ["search", "book F7"])
  assert.equal(model.requests.length, 5)
  // What the sub-agent consumed is booked on the root.
  assert.equal(done.usage.requests, 5)
  console.log(done.text)
}

if (import.meta.main) await main()
