/**
 * @title A conversation that never overflows
 *
 * The model takes 8,000 tokens, and the conversation has far more. When the context is nearly full, a model writes a summary in place of the
 * oldest messages. The history keeps all of them, and a fork from before the summary sees them again. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, createFermata } from "@fermata/node"
import { GptTokenizer } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const clerk = agent("clerk", { instructions: "You take orders." })

export const main = async () => {
  const tokenizer = await GptTokenizer.load()
  const model = ScriptedModel.make(
    ({ instructions, messages }) =>
      instructions.includes("keep the record")
        ? "Goal: orders. Order 0 is for 7 crates."
        : `Noted, message ${messages.length} of what I see.`,
    { tokenizer, contextTokens: 8000 }
  )
  await using fermata = await createFermata({
    agents: [clerk],
    model: model.client,
    tokenizer,
    store: ":memory:"
  })
  const summaries: Array<string> = []
  let runId = ""
  for (let order = 0; order < 12; order += 1) {
    const prompt = `Order ${order} is for ${order + 7} crates. ${"Deliver them carefully. ".repeat(100)}`
    const run = await fermata.runPrompt("clerk", prompt, {
      sessionId: "orders",
      onUpdate: (update) => {
        if (update._tag === "context.compacting") console.log(update.message)
        if (update._tag === "event" && update.event._tag === "context.compacted")
          summaries.push(update.event.summary)
      }
    })
    runId = run.runId
  }
  assert.ok(summaries.length > 0)
  console.log("The last summary:", summaries.at(-1))
  console.log("Messages of the session:", (await fermata.messages("orders")).length)
  console.log((await fermata.explain(runId)).text)

  const plan = await fermata.compact("orders", { dryRun: true })
  console.log("A compaction now would cost", plan.cost?.inputTokens ?? 0, "input tokens at most.")
}

if (import.meta.main) await main()
