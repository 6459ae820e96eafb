/**
 * Calls that end elsewhere, with processes that are killed: no result that was acknowledged is lost, one of several counts, and no body
 * runs again.
 */
import * as ChildProcess from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { supply } from "@fermata/node"
import { assert, describe, it } from "vitest"
import { sourceFlags } from "../../../scripts/internal/sourceFlags.ts"
import { openStudio } from "./programs/renderJob.ts"

const inFolder = async (body: (store: string, log: string) => Promise<void>) => {
  const folder = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-external-"))
  try {
    const log = Path.join(folder, "jobs.log")
    Fs.writeFileSync(log, "")
    await body(Path.join(folder, "runs.db"), log)
  } finally {
    Fs.rmSync(folder, { recursive: true, force: true })
  }
}

/** Starts the program. `ready` resolves with its first line, and `end` with its whole output and the signal that ended it. */
const start = (...args: ReadonlyArray<string>) => {
  const child = ChildProcess.spawn(
    process.execPath,
    [...sourceFlags, Path.join(import.meta.dirname, "programs/renderJob.ts"), ...args],
    { stdio: ["pipe", "pipe", "inherit"] }
  )
  let output = ""
  const ready = new Promise<void>((resolve) => {
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text
      resolve()
    })
  })
  const end = new Promise<{ readonly output: string; readonly signal: string | null }>((resolve) =>
    child.once("close", (_, signal) => resolve({ output, signal }))
  )
  return { ready, end, go: () => child.stdin.write("go\n") }
}

const jobs = (log: string): ReadonlyArray<string> => Fs.readFileSync(log, "utf8").split("\n").slice(0, -1)

describe("a call that ends elsewhere", { timeout: 120_000 }, () => {
  it("gets one of the results that several processes deliver at once, which survives their kill", () =>
    inFolder(async (store, log) => {
      assert.strictEqual((await start("start", store, log).end).signal, null)
      const [token = ""] = jobs(log)
      const webhooks = ["one", "two", "three", "four"].map((result) => ({
        result,
        process: start("complete", store, log, token, result)
      }))
      await Promise.all(webhooks.map(({ process }) => process.ready))
      for (const { process } of webhooks) process.go()
      const ends = await Promise.all(
        webhooks.map(async ({ process, result }) => ({ result, ...(await process.end) }))
      )
      const outcomes = ends.map(({ output }) => output.trim().split("\n").at(-1))
      assert.deepEqual(outcomes.toSorted(), ["AlreadyDecided", "AlreadyDecided", "AlreadyDecided", "taken"])
      assert.deepEqual(
        ends.map(({ signal }) => signal),
        ["SIGKILL", "SIGKILL", "SIGKILL", "SIGKILL"]
      )
      const winner = ends.find(({ output }) => output.includes("taken"))!.result

      await using fermata = await openStudio(store, log)
      assert.deepEqual(
        (await fermata.recover()).map(({ reason, status }) => [reason, status]),
        [["decided", "completed"]]
      )
      const end = await fermata.result("film")
      assert(end.status === "completed" && end.text.includes(`"${winner}"`), winner)
      assert.deepEqual(jobs(log), [token])
    }))

  it("is in doubt if its process is killed before it is recorded, and gets its outcome by its token", () =>
    inFolder(async (store, log) => {
      assert.strictEqual((await start("start", store, log, "die").end).signal, "SIGKILL")
      const [token = ""] = jobs(log)
      await using fermata = await openStudio(store, log)
      // The result arrives before any process has found the call.
      const refused = await fermata
        .complete(token, { result: "frames" }, { waitFor: 0 })
        .catch((error) => error)
      assert.strictEqual(refused._tag, "TokenNotFound")
      await waitFor(async () => (await fermata.recover()).length > 0)
      const [asked] = await fermata.pending()
      assert.strictEqual(asked?.request._tag, "inDoubt")
      const taken = await fermata.complete(token, { result: "frames" })
      assert.deepEqual(await fermata.complete(token, { result: "frames" }), taken)
      await fermata.recover()
      const end = await fermata.result("film")
      assert(end.status === "completed" && end.text.includes('"frames"'))
      assert.deepEqual(jobs(log), [token])
      const late = await fermata.decide(asked!, supply("other")).catch((error) => error)
      assert.strictEqual(late._tag, "AlreadyDecided")
    }))
})

/** Repeats a look until it is true: the lease of a killed process has to expire first. */
const waitFor = async (isDone: () => Promise<boolean>) => {
  while (!(await isDone())) await new Promise((resolve) => setTimeout(resolve, 200))
}
