/**
 * @title Budgets: a tree of agents shares one, and asks before it exceeds it
 *
 * The lead may spend two dollars, including its helpers. Sixty cents are reserved for each helper when it starts. When the two dollars
 * are spent, the model reports its progress, the run is held, and a top-up continues it. Scripted model and prices.
 */
import assert from "node:assert/strict"
import { agent, createFermata, topUp } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const usage = { inputTokens: 1000, outputTokens: 100, costUsd: 0.3 }
const helper = agent("helper", { limits: { maxCostUsd: 0.6 } })
const lead = agent("lead", {
  subAgents: [helper],
  delegation: "delegate",
  limits: { maxTurns: 50, maxCostUsd: 2, warnAt: 0.75, wrapUp: true }
})

const help = { tool: "delegate", arguments: { agent: "helper", prompt: "Read a chapter." } }
const model = ScriptedModel.make(({ agentPath, messages, settings }) => {
  if (settings?.toolChoice === "none") return { text: "Four chapters are read; two are left.", usage }
  if (agentPath.length > 1) return { text: "Read.", usage }
  const chapters = JSON.stringify(messages).split("Read.").length - 1
  return chapters < 6 ? { calls: [help, help], usage } : { text: "All six are read.", usage }
})

export const main = async () => {
  await using fermata = await createFermata({ agents: [lead], model: model.client })
  const warnings: Array<string> = []
  const held = await fermata.runPrompt("lead", "Read the book", {
    onUpdate: (update) => {
      if (update._tag !== "event" || update.event._tag !== "budget.nearing") return
      const { budget, limit, spent } = update.event
      warnings.push(`${budget}: ${spent.toFixed(2)} of ${limit.toFixed(2)}`)
    }
  })
  assert(held.status === "interrupted")
  const [request] = held.interruptions
  assert(request?._tag === "limit" && request.budget === "cost")
  console.log(`${warnings.join(", ")}; then held at $${held.usage.costUsd.toFixed(2)}`)
  assert.equal(warnings.length, 1)

  await fermata.decide(request, topUp(5), { by: "ana" })
  const done = await fermata.resume(held.runId)
  assert(done.status === "completed")
  assert.equal(done.text, "All six are read.")
  console.log(`${done.text} It cost $${done.usage.costUsd.toFixed(2)}.`)
}

if (import.meta.main) await main()
