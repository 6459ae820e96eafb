/**
 * @title A handoff: the front desk gives the conversation to the agent that knows
 *
 * The run goes on with the other agent's instructions and tools; it can be held behind the handoff like anywhere else, and give the
 * conversation back. Scripted model.
 */
import assert from "node:assert/strict"
import { type Agent, agent, approve, createFermata, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Schema from "effect/Schema"

const refund = tool("refund", {
  parameters: Schema.Struct({ order: Schema.String }),
  handler: ({ order }) => `refunded ${order}`
})
// They hand over to each other, so each names the other in a function.
const desk: Agent.Agent = agent("desk", {
  instructions: "You greet, and give the conversation to whoever can help.",
  handoffs: () => [billing]
})
const billing: Agent.Agent = agent("billing", {
  description: "Knows orders and refunds",
  tools: [refund],
  handoffs: () => [desk]
})

const model = ScriptedModel.make(({ agentPath, turn }) => {
  const [who] = agentPath
  if (who === "desk") return turn === 1 ? { calls: [{ tool: "transfer_to_billing" }] } : "Anything else?"
  return turn === 2
    ? { calls: [{ tool: "refund", arguments: { order: "A-17" } }] }
    : { text: "It is refunded.", calls: [{ tool: "transfer_to_desk" }] }
})

export const main = async () => {
  await using fermata = await createFermata({ agents: [desk], model: model.client })
  const held = await fermata.runPrompt("desk", "I want my money back for A-17")
  assert(held.status === "interrupted")
  const [request] = held.interruptions
  assert.deepEqual(request?.agentPath, ["billing"])

  await fermata.decide(request, approve(), { by: "ana" })
  const done = await fermata.resume(held.runId)
  assert(done.status === "completed")
  assert.equal(done.text, "Anything else?")
  assert.deepEqual(
    model.requests.map(({ agentPath }) => agentPath.join()),
    ["desk", "billing", "billing", "desk"]
  )
  console.log(done.text)
}

if (import.meta.main) await main()
