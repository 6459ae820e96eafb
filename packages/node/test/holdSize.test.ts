import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import { agent, approve, createFermata, History, SqliteStore, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"

/** Bytes that one hold cycle (decide, resume, hold again) writes after a history of about `messages` messages. */
const bytesOfHoldCycle = async (
  messages: number
): Promise<{ readonly bytes: number; readonly messages: number }> => {
  const folder = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-hold-size-"))
  try {
    const filename = Path.join(folder, "runs.db")
    const look = tool("look", { safety: "readOnly", handler: () => "x".repeat(200) })
    const act = tool("act", { handler: () => "done" })
    // Each turn adds an answer and a result.
    const lookTurns = messages / 2
    const model = ScriptedModel.make(({ turn }) => ({
      text: "y".repeat(200),
      calls: [{ tool: turn <= lookTurns ? "look" : "act" }]
    }))
    await using fermata = await createFermata({
      agents: [agent("ops", { tools: [look, act], limits: { maxTurns: 100_000 } })],
      model: model.client,
      // `synchronous` does not change how much is written.
      store: SqliteStore.layer({ filename, synchronous: "normal" })
    })
    const held = await fermata.runPrompt("ops", "Go")
    if (held.status !== "interrupted") throw new Error(`The run is ${held.status}.`)

    // Empties the log, which from then on holds the cycle alone.
    const database = new DatabaseSync(filename)
    database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()
    database.close()
    assert.strictEqual(Fs.statSync(`${filename}-wal`).size, 0)
    await fermata.decide(held.interruptions[0]!, approve())
    const again = await fermata.resume(held.runId)
    assert.strictEqual(again.status, "interrupted")
    return { bytes: Fs.statSync(`${filename}-wal`).size, messages: History.size(held.state.history) }
  } finally {
    Fs.rmSync(folder, { recursive: true, force: true })
  }
}

describe("a hold cycle", () => {
  it(
    "writes the same number of bytes (within 20 %) after 10 and after 5,000 messages",
    { timeout: 300_000 },
    async () => {
      const short = await bytesOfHoldCycle(10)
      const long = await bytesOfHoldCycle(5000)
      assert.isAtLeast(long.messages, 5000)
      const ratio = long.bytes / short.bytes
      assert.isTrue(
        ratio > 0.8 && ratio < 1.2,
        `${short.bytes} bytes at ${short.messages} messages, ${long.bytes} at ${long.messages}`
      )
    }
  )
})
