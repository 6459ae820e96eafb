/**
 * @title A question to the user
 *
 * With the tool `askUser` the model can ask a question. The run is held as for an approval, the question is in the same list of
 * requests, and the answer is the result of the call. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, answer, askUser, createFermata, deny } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

export const main = async () => {
  const model = ScriptedModel.make([
    {
      calls: [
        { tool: "ask_user", arguments: { question: "Which room?", options: ["Aalto", "Sibelius"] } },
        { tool: "ask_user", arguments: { question: "With coffee?" } }
      ]
    },
    "Sibelius is yours at ten, without coffee."
  ])
  await using fermata = await createFermata({
    agents: [agent("desk", { instructions: "You book rooms.", tools: [askUser] })],
    model: model.client,
    by: "ana"
  })

  const held = await fermata.runPrompt("desk", "A room for ten o'clock, please.")
  assert(held.status === "interrupted")
  for (const asked of await fermata.pending({ runId: held.runId, kind: "question" })) {
    const { request } = asked
    assert(request._tag === "question")
    console.log(request.question, request.options ?? "(any answer)")
    // A question can be denied too; the denial is the result.
    await fermata.decide(asked, request.options ? answer("Sibelius") : deny("Ana has no opinion on coffee."))
  }

  const done = await fermata.resume(held.runId)
  assert(done.status === "completed")
  const results = model.requests[1]?.messages.flatMap((message) =>
    message.role === "tool" ? [[message.outcome, ...message.content]] : []
  )
  assert.deepEqual(results, [
    ["completed", { _tag: "text", text: "Sibelius" }],
    ["denied", { _tag: "text", text: "Ana has no opinion on coffee." }]
  ])
  console.log(done.text)
}

if (import.meta.main) await main()
