import * as ChildProcess from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { sourceFlags } from "../../../scripts/internal/sourceFlags.ts"
import { openCashier } from "./programs/chargeAgent.ts"

const processes = 4
const heldRuns = 100

interface Report {
  readonly decided: number
  readonly tooLate: number
  readonly resumed: number
  readonly busy: number
}

/** A worker that is ready to start: `go` starts it, and `end` gives its exit code and report. */
const spawnWorker = (args: ReadonlyArray<string>) => {
  const child = ChildProcess.spawn(
    process.execPath,
    [...sourceFlags, Path.join(import.meta.dirname, "programs/releaseAll.ts"), ...args],
    { stdio: ["pipe", "pipe", "pipe"] }
  )
  let stdout = ""
  let stderr = ""
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text))
  const ready = new Promise<void>((resolve, reject) => {
    child.once("exit", () => reject(new Error(`The worker ended early: ${stderr}`)))
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text
      if (stdout.includes("ready\n")) resolve()
    })
  })
  const end = new Promise<{
    readonly code: number | null
    readonly report: Report | undefined
    readonly stderr: string
  }>((resolve) =>
    child.once("close", (code) => {
      const line = stdout.trim().split("\n").at(-1) ?? ""
      resolve({ code, report: line.startsWith("{") ? (JSON.parse(line) as Report) : undefined, stderr })
    })
  )
  return { ready, end, go: () => child.stdin.write("go\n") }
}

describe("several processes on one SQLite file", () => {
  it(
    "run every gated body exactly once when all of them decide and resume all held runs",
    { timeout: 300_000 },
    async () => {
      const folder = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-race-"))
      try {
        const store = Path.join(folder, "runs.db")
        const log = Path.join(folder, "charges.log")
        Fs.writeFileSync(log, "")
        {
          await using fermata = await openCashier({ store, log, owner: "starter" })
          for (let i = 0; i < heldRuns; i++) {
            const run = await fermata.runPrompt("cashier", `Charge customer ${i}`)
            assert.strictEqual(run.status, "interrupted")
          }
        }
        assert.strictEqual(Fs.readFileSync(log, "utf8"), "")

        const workers = Array.from({ length: processes }, (_, i) =>
          spawnWorker([store, log, `worker-${i}`, String(i + 7)])
        )
        await Promise.all(workers.map((worker) => worker.ready))
        for (const worker of workers) worker.go()
        const ends = await Promise.all(workers.map((worker) => worker.end))

        for (const { code, stderr } of ends) assert.strictEqual(code, 0, stderr)
        const report = ends.map((end) => end.report!)
        // Each request was decided by one process and refused to the three others.
        assert.strictEqual(
          report.reduce((sum, { decided }) => sum + decided, 0),
          heldRuns
        )
        assert.strictEqual(
          report.reduce((sum, { tooLate }) => sum + tooLate, 0),
          heldRuns * (processes - 1)
        )
        assert.deepStrictEqual(
          report.map(({ resumed }) => resumed),
          report.map(() => heldRuns)
        )
        // The effects outside the store.
        const charges = Fs.readFileSync(log, "utf8").trim().split("\n")
        assert.strictEqual(charges.length, heldRuns)
        assert.strictEqual(new Set(charges).size, heldRuns)
        await using fermata = await openCashier({ store, log, owner: "reader" })
        assert.strictEqual((await fermata.runs({ status: "completed", limit: 1000 })).length, heldRuns)
        assert.strictEqual((await fermata.pending()).length, 0)
      } finally {
        Fs.rmSync(folder, { recursive: true, force: true })
      }
    }
  )
})
