import { assert, describe, it } from "@effect/vitest"
import { agent, approve, tool } from "@fermata/node"
import { programs } from "./programs.ts"

describe("a grant that is revoked while its read-only calls run one at a time", () => {
  it("starts no further call after the revocation is acknowledged", async () => {
    await using p = programs(({ messages }) => {
      const last = messages.at(-1)
      if (last?.role !== "user") return "done"
      const times = JSON.stringify(last.content).includes("many") ? 4 : 1
      return { calls: Array.from({ length: times }, () => ({ tool: "peek" })) }
    })
    let revoke: (() => Promise<unknown>) | undefined
    const peek = tool("peek", {
      safety: "readOnly",
      needsApproval: true,
      handler: async () => {
        p.ran.push("peek")
        await revoke?.()
        return "seen"
      }
    })
    const fermata = await p.open([agent("ops", { tools: [peek], limits: { toolConcurrency: 1 } })])
    const one = await fermata.runPrompt("ops", "once", { runId: "run-1", sessionId: "s" })
    if (one.status !== "interrupted") return assert.fail(one.status)
    await fermata.decide(one.interruptions[0]!, approve({ grant: { scope: "session", arguments: {} } }))
    const grantId = (await fermata.resume("run-1")).state.grants[0]!.id
    p.ran.length = 0
    revoke = () => fermata.revokeGrant("run-1", grantId, { by: "ben" })
    const two = await fermata.runPrompt("ops", "many", { runId: "run-2", sessionId: "s" })
    if (two.status !== "interrupted") return assert.fail(two.status)
    assert.lengthOf(p.ran, 1)
    assert.lengthOf(two.interruptions, 3)
  })
})
