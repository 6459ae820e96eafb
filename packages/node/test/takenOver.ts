/**
 * A caller's policy in a session that a handoff has given to another agent, over any store.
 */
import { assert, describe, it } from "@effect/vitest"
import { type Agent, agent, createFermata, tool } from "@fermata/node"
import type { RunStore, RunStoreError } from "@fermata/sdk/store"
import { ScriptedModel } from "@fermata/sdk/testing"
import type * as Layer from "effect/Layer"

const options = { sessionId: "s", policy: { mode: "all" } } as const

export const takenOver = (
  name: string,
  store: Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError>
): void => {
  describe(`${name}: a caller's policy of \`all\` after a handoff`, () => {
    for (const [own, status] of [
      [{ mode: "ask" }, "interrupted"],
      [{ mode: "none" }, "completed"],
      [{ mode: "all", rules: [{ tool: "refund", action: "deny" }] }, "completed"]
    ] as const) {
      for (const how of ["runPrompt", "dispatch", "a conductor"]) {
        it(`approves nothing that the new agent's policy ${JSON.stringify(own)} does not, by ${how}`, async () => {
          const ran: Array<string> = []
          const refund = tool("refund", { handler: () => void ran.push("refund") })
          const billing: Agent.Agent = agent("billing", { policy: own, tools: [refund] })
          const desk = agent("desk", { handoffs: [billing] })
          const model = ScriptedModel.make([
            { calls: [{ tool: "transfer_to_billing" }] },
            "Billing here.",
            { calls: [{ tool: "refund" }] },
            "Done."
          ])
          await using fermata = await createFermata({ agents: [desk], model: model.client, store })
          await using conductor = await fermata.conductor()
          const ask = async (prompt: string) => {
            if (how === "runPrompt") return fermata.runPrompt("desk", prompt, options)
            const by = how === "dispatch" ? fermata : conductor
            return (await by.dispatch("desk", prompt, options)).wait()
          }
          assert.strictEqual((await ask("hello")).status, "completed")
          assert.strictEqual((await ask("refund me")).status, status)
          assert.deepStrictEqual(model.requests[2]?.agentPath, ["billing"])
          assert.deepStrictEqual(ran, [])
        })
      }
    }
  })
}
