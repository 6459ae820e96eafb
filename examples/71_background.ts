/**
 * @title Sub-agents in the background: one is held, the others and their lead continue
 *
 * The lead delegates work to two agents and continues without waiting. The publisher is held on an approval; meanwhile the lead receives
 * the researcher's result. Hours later another program approves, and the publisher continues from its state. Scripted model.
 */
import assert from "node:assert/strict"
import { agent, approve, createFermata, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

let published = 0
const open = () => {
  const researcher = agent("researcher", { description: "Finds things out" })
  const publish = tool("publish", { risk: "Everybody can read it.", handler: () => `edition ${++published}` })
  const publisher = agent("publisher", { description: "Publishes", tools: [publish] })
  const lead = agent("lead", { subAgents: [researcher, publisher], delegation: "delegate" })

  const delegate = (to: string, prompt: string) => ({
    tool: "delegate",
    arguments: { agent: to, prompt, background: true }
  })
  const model = ScriptedModel.make(({ agentPath, messages, turn }) => {
    switch (agentPath.at(-1)) {
      case "researcher":
        return "Mistral, 1957."
      case "publisher":
        return turn === 1 ? { calls: [{ tool: "publish" }] } : "It is out."
    }
    if (turn === 1) {
      return { calls: [delegate("researcher", "Who, when?"), delegate("publisher", "Publish the edition.")] }
    }
    // The result of a background sub-agent arrives as a message.
    const heard = JSON.stringify(messages)
    return `I know ${heard.includes("1957") ? "who and when" : "nothing"}; the edition ${heard.includes("It is out.") ? "is out" : "is not out yet"}.`
  })
  return createFermata({ agents: [lead], model: model.client })
}

export const main = async () => {
  {
    await using morning = await open()
    const result = await morning.runPrompt("lead", "Bring out the edition", { runId: "edition-7" })
    assert(result.status === "interrupted")
    console.log((await morning.explain("edition-7")).text)
    assert.equal(published, 0)
  }

  await using evening = await open()
  const [request] = await evening.pending()
  assert(request?.request._tag === "approval")
  assert.deepEqual(request.request.agentPath, ["lead", "publisher"])
  await evening.decide(request, approve(), { by: "ana" })
  const done = await evening.resume("edition-7")
  assert(done.status === "completed")
  console.log(done.text)
  assert.equal(done.text, "I know who and when; the edition is out.")
  assert.equal(published, 1)
}

if (import.meta.main) await main()
