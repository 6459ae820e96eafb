/**
 * @title Secrets: the model writes a reference, and only the tool gets the value
 *
 * A tool needs a token. The model, the approval, the store and the log have `secret://github-token`; the handler has the token. What the
 * tool prints of it is removed, in every encoding. The model is scripted.
 */
import assert from "node:assert/strict"
import { readdirSync, readFileSync } from "node:fs"
import { agent, approve, createFermata, Schema, Secrets, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

/** What your vault has. Only this function sees it. */
const vault: Readonly<Record<string, string>> = {
  "acme/github-token": "Gh-31xQv9-acme",
  "acme/root-password": "Rp-77aLm2-acme"
}

export const main = async () => {
  const sent: Array<string> = []
  const push = tool("push", {
    description: "Pushes the branch. The token is secret://github-token.",
    parameters: Schema.Struct({ branch: Schema.String, header: Schema.String }),
    // The only names that a call of this tool may use.
    secrets: ["github-token"],
    handler: ({ branch, header }) => {
      sent.push(header)
      return `POST /${branch}\n> ${header}\n> ${Buffer.from(header.slice(7)).toString("base64")}\n200 OK`
    }
  })
  const call = (secret: string) => ({
    calls: [{ tool: "push", arguments: { branch: "main", header: `Bearer secret://${secret}` } }]
  })
  const model = ScriptedModel.make([call("root-password"), call("github-token"), "Pushed."])
  const secrets = Secrets.make((name, { context }) => vault[`${String(context["tenant"])}/${name}`])

  await using fermata = await createFermata({
    agents: [agent("ops", { tools: [push] })],
    model: model.client,
    secrets
  })
  const held = await fermata.runPrompt("ops", "Push it.", { context: { tenant: "acme" } })

  // The tool does not state root-password. The call failed without asking, and the model does not learn whether there is one.
  assert(held.status === "interrupted" && held.interruptions[0]?._tag === "approval")
  assert.deepEqual(sent, [])

  // The person who decides sees the reference, and the digest covers it.
  assert.deepEqual(held.interruptions[0].arguments, {
    branch: "main",
    header: "Bearer secret://github-token"
  })
  await fermata.decide(held.interruptions[0], approve())
  const done = await fermata.resume(held.runId)
  assert.equal(done.status, "completed")

  // The handler had the value. The model read its output without it.
  assert.deepEqual(sent, ["Bearer Gh-31xQv9-acme"])
  const messages = await fermata.messages(done.sessionId)
  const [refused, pushed] = messages
    .filter(({ role }) => role === "tool")
    .map(({ content }) => content.map((part) => (part._tag === "text" ? part.text : "")).join(""))
  console.log(refused)
  console.log(pushed)
  assert.equal(pushed, "POST /main\n> Bearer [REDACTED:github-token]\n> [REDACTED:github-token]\n200 OK")

  // No byte of the store has it.
  const files = readdirSync(".").filter((name) => name.startsWith("fermata.db"))
  for (const file of files) assert(!readFileSync(file).includes("Gh-31xQv9"))
}

if (import.meta.main) await main()
