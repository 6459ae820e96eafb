/**
 * @title Pins and sections: what a summary must not touch
 *
 * A pinned message stays in the context as it was written, also when its place is summarized. A section is rendered from the program's own data
 * before each model call. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, createFermata, Section } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const tasks = ["book the train", "find a hotel"]
const planner = agent("planner", {
  instructions: "You plan journeys.",
  sections: [Section.make("Open tasks", () => tasks.map((task) => `- ${task}`).join("\n"))]
})

export const main = async () => {
  const model = ScriptedModel.make(({ instructions }) =>
    instructions.includes("keep the record") ? "Goal: a journey to Rome." : "Understood."
  )
  await using fermata = await createFermata({ agents: [planner], model: model.client, store: ":memory:" })
  const rule = "Never book anything above 200 euros a night."
  const { runId } = await fermata.runPrompt("planner", rule, { sessionId: "rome" })
  await fermata.pin(runId, 0)

  for (let day = 1; day <= 40; day += 1)
    await fermata.runPrompt("planner", `Day ${day}: ${"we walk and eat. ".repeat(400)}`, {
      sessionId: "rome"
    })
  const { after, before, summary } = await fermata.compact("rome")
  console.log(`${before.used} tokens before, ${after?.used} after: ${summary?.text}`)

  tasks.pop()
  await fermata.runPrompt("planner", "What is left?", { sessionId: "rome" })
  const seen = model.requests.at(-1)?.messages.map(({ content }) => JSON.stringify(content)) ?? []
  console.log("Messages that the model sees:", seen.length)
  assert.ok(seen[0]?.includes("a journey to Rome"))
  assert.ok(seen[1]?.includes(rule))
  assert.ok(seen.at(-1)?.includes("book the train") && !seen.at(-1)?.includes("find a hotel"))
}

if (import.meta.main) await main()
