/**
 * @title Hello: an agent, a prompt, an answer
 *
 * A run ends with one of four statuses: `completed`, `interrupted`, `cancelled` or `error`. Failures inside a run are results, never
 * exceptions. A second prompt with the same `sessionId` continues the conversation. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, createFermata } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

export const main = async () => {
  const model = ScriptedModel.make([
    { text: "A fermata holds a note until the conductor goes on.", chunkSize: 12 },
    "An organ point: it holds, too, and the rest moves over it."
  ])
  const teacher = agent("teacher", { instructions: "You teach music, one sentence at a time." })
  await using fermata = await createFermata({ agents: [teacher], model: model.client })

  const pieces: Array<string> = []
  const first = await fermata.runPrompt(teacher, "What is a fermata?", {
    onUpdate: (update) => {
      if (update._tag === "delta" && update.part._tag === "text-delta") pieces.push(update.part.delta)
    }
  })
  assert(first.status === "completed")
  assert.equal(pieces.join(""), first.text)
  console.log(first.text)

  const second = await fermata.runPrompt(teacher, "And what is related to it?", {
    sessionId: first.sessionId
  })
  assert(second.status === "completed")
  console.log(second.text)

  // The model received the whole conversation, and the usage is cumulative over the session's runs.
  assert.deepEqual(
    model.requests[1]?.messages.map(({ role }) => role),
    ["user", "assistant", "user"]
  )
  assert.equal(second.usage.requests, 1)
  assert.equal(second.state.sessionUsage.requests, 2)
  const { inputTokens, outputTokens, costUsd } = second.state.sessionUsage
  console.log(`${inputTokens} tokens in, ${outputTokens} out, ${costUsd} US dollars`)
}

if (import.meta.main) await main()
