/**
 * @title A handoff: the front desk transfers the conversation to billing
 *
 * The run continues with the other agent's instructions and tools, and can be held after the handoff too. The session keeps its new
 * agent: billing answers the next prompt as well, until it transfers the conversation back. Scripted model.
 */
import assert from "node:assert/strict"
import { type Agent, agent, approve, createFermata, Schema, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const refund = tool("refund", {
  parameters: Schema.Struct({ order: Schema.String }),
  handler: ({ order }) => `refunded ${order}`
})
// The agents hand over to each other, so each refers to the other in a function.
const desk: Agent.Agent = agent("desk", {
  instructions: "You greet, and transfer the conversation to the agent that can help.",
  handoffs: () => [billing]
})
const billing: Agent.Agent = agent("billing", {
  description: "Knows orders and refunds",
  tools: [refund],
  handoffs: () => [desk]
})

const model = ScriptedModel.make(({ agentPath, messages, turn }) => {
  const [who] = agentPath
  if (who === "desk") return turn === 1 ? { calls: [{ tool: "transfer_to_billing" }] } : "Anything else?"
  const said = JSON.stringify(messages.findLast(({ role }) => role === "user"))
  if (said.includes("Thank you")) return { text: "Gladly.", calls: [{ tool: "transfer_to_desk" }] }
  return turn === 2 ? { calls: [{ tool: "refund", arguments: { order: "A-17" } }] } : "It is refunded."
})

export const main = async () => {
  await using fermata = await createFermata({ agents: [desk], model: model.client })
  const sessionId = "customer-7"
  const held = await fermata.runPrompt("desk", "I want my money back for A-17", { sessionId })
  assert(held.status === "interrupted")
  const [request] = held.interruptions
  assert.deepEqual(request?.agentPath, ["billing"])

  await fermata.decide(request, approve(), { by: "ana" })
  const done = await fermata.resume(held.runId)
  assert(done.status === "completed")
  assert.equal(done.text, "It is refunded.")

  // Billing has the session: it answers the next prompt to the desk, and transfers the conversation back.
  const [last] = await fermata.runs()
  assert.equal(last?.answeredBy, "billing")
  const thanked = await fermata.runPrompt("desk", "Thank you", { sessionId })
  assert(thanked.status === "completed")
  assert.equal(thanked.text, "Anything else?")
  assert.deepEqual(
    model.requests.map(({ agentPath }) => agentPath.join()),
    ["desk", "billing", "billing", "billing", "desk"]
  )
  console.log(thanked.text)
}

if (import.meta.main) await main()
