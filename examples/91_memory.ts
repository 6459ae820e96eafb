/**
 * @title Memory across sessions
 *
 * A concierge remembers what its users said in earlier sessions, and facts that it was allowed to keep. Memory is searched for each message, by
 * its words; another user's memory is never found. The model is scripted: it answers from what it is sent.
 */
import assert from "node:assert/strict"
import { agent, createFermata, recallTool, rememberTool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const concierge = agent("concierge", {
  instructions: "You help the guests of a hotel.",
  tools: [recallTool(), rememberTool({ scope: "user" })]
})

/** The text that memory adds to a request. */
const retrievedIn = (messages: ReadonlyArray<{ readonly content: ReadonlyArray<object> }>): string =>
  messages
    .flatMap(({ content }) => content.map((part) => ("text" in part ? String(part.text) : "")))
    .filter((text) => text.startsWith("[Relevant context from memory"))
    .join("\n")

export const main = async () => {
  const model = ScriptedModel.make(({ messages }) => {
    const last = messages.findLast(({ role, ...rest }) => role === "user" && !("origin" in rest))
    const asked = last?.content.map((part) => ("text" in part ? part.text : "")).join("") ?? ""
    if (messages.at(-1)?.role === "tool") return "I will remember it."
    if (asked.includes("remember"))
      return { calls: [{ tool: "remember", arguments: { key: "room", text: "Anna likes a quiet room." } }] }
    const memory = retrievedIn(messages)
    return memory === "" ? "I have nothing about that." : `I found: ${memory.split("\n")[1]}`
  })
  await using fermata = await createFermata({
    agents: [concierge],
    model: model.client,
    memory: { messages: "user" },
    store: ":memory:"
  })
  const anna = { context: { user: "anna" } }
  await fermata.runPrompt("concierge", "My flight back is LH 417 on Friday.", anna)

  // The tool that remembers has an effect on later runs, so that a person decides.
  const held = await fermata.runPrompt("concierge", "Please remember that I like a quiet room.", anna)
  assert.equal(held.status, "interrupted")
  const [request] = await fermata.pending({ runId: held.runId })
  await fermata.decide(request!, { _tag: "approve" })
  const kept = await fermata.resume(held.runId)
  console.log(kept.status === "completed" ? kept.text : kept.status)

  // Weeks later, in another session.
  const flight = await fermata.runPrompt("concierge", "Which flight did I book?", anna)
  console.log(flight.status === "completed" ? flight.text : flight.status)
  const found = flight.state.retrieved?.items.some(({ text }) => text.includes("LH 417"))
  assert.equal(found, true)

  // Another user finds none of it.
  const bert = await fermata.runPrompt("concierge", "Which flight did I book?", { context: { user: "bert" } })
  console.log(bert.status === "completed" ? bert.text : bert.status)
  assert.equal(bert.state.retrieved?.items.length, 0)

  for (const fact of await fermata.memory.list({ scope: { user: "anna" }, kind: "fact" }))
    console.log(`Remembered: ${fact.text}`)
}

if (import.meta.main) await main()
