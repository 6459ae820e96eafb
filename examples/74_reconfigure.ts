/**
 * @title A running Fermata that changes its mode: plan first, then act
 *
 * Under the profile `plan` the agent has only read-only tools. The same Fermata switches to `act` between two turns and continues the
 * session. The switch is refused during a turn. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, createFermata, isRuntimeBusy, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

export const main = async () => {
  const model = ScriptedModel.make([
    { calls: [{ tool: "look" }] },
    "I would edit the three files.",
    { calls: [{ tool: "edit" }] },
    "They are edited."
  ])
  const refused: Array<boolean> = []
  const look = tool("look", { safety: "readOnly", handler: () => "three files" })
  const edit = tool("edit", {
    needsApproval: false,
    handler: async () => {
      // A change during a turn is refused.
      await fermata.reconfigure({ profile: "plan" }).catch((error) => refused.push(isRuntimeBusy(error)))
      return "edited"
    }
  })
  await using fermata = await createFermata({
    agents: [agent("coder", { tools: [look, edit] })],
    model: model.client,
    store: ":memory:",
    profiles: [
      { name: "plan", tools: { safety: ["readOnly"] }, instructions: "Only plan; change nothing." },
      { name: "act" }
    ],
    profile: "plan"
  })

  const planned = await fermata.runPrompt("coder", "What would you do?")
  assert(planned.status === "completed")
  console.log(`plan: ${planned.text}`)

  const { coder } = await fermata.reconfigure({ profile: "act" })
  const done = await fermata.runPrompt("coder", "Do it.", { sessionId: planned.sessionId })
  assert(done.status === "completed")
  console.log(`${coder?.mode}: ${done.text}`)
  assert.deepEqual(refused, [true])

  const shown = model.requests.map(({ tools }) => tools.map(({ name }) => name).join("+"))
  assert.deepEqual(shown, ["look", "look", "look+edit", "look+edit"])
}

if (import.meta.main) await main()
