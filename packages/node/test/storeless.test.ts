import { existsSync } from "node:fs"
import { homedir } from "node:os"
import { assert, describe, it } from "@effect/vitest"
import { agent, createFermata, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

describe("createFermata with `store: false`", () => {
  it("creates no file, and hides the home directory as a stored one does", async () => {
    const before = existsSync("fermata.db")
    const where = tool("where", { safety: "readOnly", handler: () => `${homedir()}/notes` })
    const model = ScriptedModel.make([{ calls: [{ tool: "where" }] }, "done"])
    await using fermata = await createFermata({
      agents: [agent("a", { tools: [where] })],
      model: model.client,
      store: false
    })
    assert.strictEqual((await fermata.runPrompt("a", "go")).status, "completed")
    assert.include(JSON.stringify(model.requests[1]?.messages), "~/notes")
    assert.strictEqual(existsSync("fermata.db"), before)
  })
})
