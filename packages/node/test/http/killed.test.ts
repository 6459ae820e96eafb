import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, describe, it } from "@effect/vitest"
import { connectFermata } from "@fermata/node/http"

const directory = mkdtempSync(join(tmpdir(), "fermata-http-killed-"))
afterAll(() => rmSync(directory, { recursive: true }))

const children: Array<ChildProcess> = []
afterAll(() => children.forEach((child) => child.kill("SIGKILL")))

const token = "k".repeat(40)

/** Starts a server as a process of its own. */
const started = async (name: string, port: number) => {
  const program = join(import.meta.dirname, "../programs/httpServer.ts")
  const files = [join(directory, `${name}.db`), String(port), token, join(directory, `${name}.txt`)]
  const child = spawn(process.execPath, ["--conditions=@fermata/source", program, ...files], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  children.push(child)
  const exit = once(child, "exit")
  const [url] = (await once(child.stdout.setEncoding("utf8"), "data")) as [string]
  return { child, exit, url: url.trim() }
}

describe("a server process", () => {
  it("can be killed while a client reads: the client continues with the next process, and the call runs once", async () => {
    const first = await started("killed", 0)
    await using client = await connectFermata({ url: first.url, token })
    const places: Array<string> = []
    const epochs: Array<string> = []
    let requestId = ""
    let onAsked = () => {}
    const asked = new Promise<void>((resolve) => (onAsked = resolve))
    const reading = (async () => {
      for await (const { event, journal } of client.events()) {
        if (journal !== undefined) places.push(`${journal.revision}.${journal.part}`)
        if (event._tag === "lifecycle.started") epochs.push(event.epoch)
        if (event._tag === "tool.approvalRequired") {
          requestId = event.request.requestId
          onAsked()
        }
        if (event._tag === "task.completed") return event.text
      }
      return assert.fail("The events ended")
    })()
    await client.submit({ _tag: "SubmitPrompt", prompt: "Pay.", commandId: "pay-1" })
    await asked
    first.child.kill("SIGKILL")
    await first.exit

    const second = await started("killed", Number(new URL(first.url).port))
    // The first command again, since its sender cannot know that it was taken.
    const again = await client.submit({ _tag: "SubmitPrompt", prompt: "Pay.", commandId: "pay-1" })
    assert.strictEqual(again._tag, "TaskStarted")
    assert.strictEqual((await client.runs()).length, 1)
    await client.decide(requestId, { decision: { _tag: "approve" } })
    await client.submit({ _tag: "SessionResumeLast" })
    assert.strictEqual(await reading, "It is paid.")
    // The end of the task may be among the events that are read again, which come before the next epoch.
    assert.include([1, 2], epochs.length)
    const payments = join(directory, "killed.txt")
    assert.strictEqual(existsSync(payments) && readFileSync(payments, "utf8"), "paid\n")
    // Every event of the journal has arrived; those after the last committed one may have arrived twice.
    const revisions = new Set(places.map((place) => Number(place.split(".")[0])))
    const [run] = await client.runs()
    assert.isAtMost(Math.max(...revisions), run!.revision)
    second.child.kill("SIGTERM")
    assert.deepStrictEqual(await second.exit, [0, null])
  })

  it("ends within a second of SIGTERM while event streams are open", async () => {
    const at = await started("term", 0)
    await using client = await connectFermata({ url: at.url, token })
    const open = Array.from({ length: 5 }, () => client.events()[Symbol.asyncIterator]())
    await Promise.all(open.map((one) => one.next()))
    const before = performance.now()
    at.child.kill("SIGTERM")
    assert.deepStrictEqual(await at.exit, [0, null])
    assert.isBelow(performance.now() - before, 1000)
  })
})
