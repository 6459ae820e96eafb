/**
 * @title A sub-agent that is held
 *
 * An agent can call other agents like tools. When one of them needs a decision, the root's run shows the request with its agent
 * path. After the decision the sub-agent continues from its state, and no call is repeated. A sub-agent may never do more than the
 * policies above it permit. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, approve, createFermata, Schema, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

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

  // One model serves both agents; the request contains the agent path.
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
  // Resuming the root's run resumes every sub-agent of the tree.
  assert.equal(asked.runId, held.runId)
  console.log(asked.request.agentPath.join(" > "), "asks:", asked.request.preview)

  await fermata.decide(asked, approve())
  const done = await fermata.resume(asked.runId)
  assert(done.status === "completed")
  assert.deepEqual(ran, ["search", "book F7"])
  assert.equal(model.requests.length, 5)
  // The root's usage includes the sub-agent's.
  assert.equal(done.usage.requests, 5)
  console.log(done.text)
}

if (import.meta.main) await main()
