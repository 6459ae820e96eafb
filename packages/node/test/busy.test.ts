import * as ChildProcess from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { agent, approve, createFermata, isRunBusy, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import { sourceFlags } from "../../../scripts/internal/sourceFlags.ts"

describe("a run that two processes resume", () => {
  it(
    "refuses the second with RunBusy, its owner and the lease's end, and later returns the result",
    { timeout: 300_000 },
    async () => {
      const folder = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-busy-"))
      try {
        const store = Path.join(folder, "runs.db")
        const model = ScriptedModel.make(({ turn }) =>
          turn === 1 ? { calls: [{ tool: "act" }] } : "It is done."
        )
        const act = tool("act", { handler: () => assert.fail("The other process runs the body.") })
        await using fermata = await createFermata({
          agents: [agent("actor", { tools: [act] })],
          model: model.client,
          store,
          owner: "second"
        })
        const held = await fermata.runPrompt("actor", "Act")
        if (held.status !== "interrupted") return assert.fail(held.status)
        await fermata.decide(held.interruptions[0]!, approve(), { by: "ana" })

        const program = Path.join(import.meta.dirname, "programs/slowRelease.ts")
        const child = ChildProcess.spawn(
          process.execPath,
          [...sourceFlags, program, store, held.runId, "first"],
          { stdio: ["pipe", "pipe", "inherit"] }
        )
        let output = ""
        await new Promise<void>((resolve, reject) => {
          child.once("exit", () => reject(new Error(`The first process ended early: ${output}`)))
          child.stdout.setEncoding("utf8").on("data", (text: string) => {
            output += text
            if (output.includes("in body\n")) resolve()
          })
        })
        const busy: unknown = await fermata.resume(held.runId).catch((error: unknown) => error)
        if (!isRunBusy(busy)) return assert.fail(String(busy))
        assert.strictEqual(busy.owner, "first")
        assert.isAbove(busy.until, Date.now())

        const ended = new Promise((resolve) => child.once("close", resolve))
        child.stdin.write("go\n")
        await ended
        assert.strictEqual(output, "in body\ncompleted\n")
        assert.strictEqual((await fermata.resume(held.runId)).status, "completed")
      } finally {
        Fs.rmSync(folder, { recursive: true, force: true })
      }
    }
  )
})
