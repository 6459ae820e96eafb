import { type ChildProcess, type ChildProcessByStdio, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import type { Readable, Writable } from "node:stream"
import { afterAll, assert, describe, it } from "@effect/vitest"
import { agent, createFermata, serveStdio } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const directory = mkdtempSync(join(tmpdir(), "fermata-stdio-"))
afterAll(() => rmSync(directory, { recursive: true }))

const children: Array<ChildProcess> = []
afterAll(() => children.forEach((child) => child.kill("SIGKILL")))

type Line = Readonly<Record<string, any>>

/** Starts a child. `next` reads lines until one fits. */
const started = (store: string) => {
  const program = join(import.meta.dirname, "programs/stdioChild.ts")
  const child: ChildProcessByStdio<Writable, Readable, null> = spawn(
    process.execPath,
    ["--conditions=@fermata/source", program, join(directory, store)],
    { stdio: ["pipe", "pipe", "inherit"] }
  )
  children.push(child)
  const exit = once(child, "exit")
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async (fits: (line: Line) => boolean): Promise<Line> => {
    while (true) {
      const { done, value } = await lines.next()
      if (done === true) return assert.fail("The output ended")
      const line = JSON.parse(value) as Line
      assert.strictEqual(Object.keys(line).length, 1)
      if (fits(line)) return line
    }
  }
  const send = (command: unknown) =>
    child.stdin.write(`${typeof command === "string" ? command : JSON.stringify(command)}\n`)
  return { child, exit, next, send }
}

const approve = (approvalId: unknown) => ({
  _tag: "Approve",
  commandId: "approve",
  approvalId,
  decision: { _tag: "approve" }
})

describe("serveStdio", () => {
  it("takes commands and sends events and answers as lines, until Shutdown", async () => {
    const at = started("lines.db")
    assert.strictEqual((await at.next(() => true)).event.event._tag, "lifecycle.started")
    at.send({ _tag: "SubmitPrompt", commandId: "1", prompt: "Pay." })
    const { acknowledgement } = await at.next((line) => "acknowledgement" in line)
    assert.deepStrictEqual([acknowledgement._tag, acknowledgement.commandId], ["TaskStarted", "1"])
    const asked = await at.next(({ event }) => event?.event._tag === "tool.approvalRequired")
    at.send(approve(asked.event.event.request.requestId))
    const decided = await at.next((line) => "acknowledgement" in line)
    assert.strictEqual(decided.acknowledgement.decision.by, "parent")
    const done = await at.next(({ event }) => event?.event._tag === "task.completed")
    assert.strictEqual(done.event.event.text, "It is paid.")
    at.send({ _tag: "Shutdown", commandId: "2" })
    await at.next(({ event }) => event?.event._tag === "lifecycle.stopped")
    assert.deepStrictEqual(await at.exit, [0, null])
  })

  it("answers lines that are no commands with rejections, and goes on", async () => {
    const at = started("rejections.db")
    const rejected = async (line: unknown, says: RegExp) => {
      at.send(line)
      const { rejection } = await at.next((line) => "rejection" in line)
      assert.match(rejection.message, says)
      return rejection
    }
    await rejected("{", /no JSON/)
    await rejected("null", /_tag/)
    await rejected("x".repeat(5000), /more than 1000 bytes/)
    assert.strictEqual(
      (await rejected({ _tag: "SubmitPromt", commandId: "7" }, /SubmitPrompt/)).commandId,
      "7"
    )
    const by = { _tag: "SubmitPrompt", prompt: "Pay.", by: "eve" }
    assert.strictEqual((await rejected(by, /by/))._tag, "CommandInvalid")
    at.send({ _tag: "SessionList", commandId: "8" })
    const { acknowledgement } = await at.next((line) => "acknowledgement" in line)
    assert.strictEqual(acknowledgement.commandId, "8")
    at.child.stdin.end()
    assert.deepStrictEqual(await at.exit, [0, null])
  })

  it("suspends held tasks when the input ends, and another child resumes them", async () => {
    const first = started("suspended.db")
    first.send({ _tag: "SubmitPrompt", commandId: "1", prompt: "Pay." })
    const asked = await first.next(({ event }) => event?.event._tag === "tool.approvalRequired")
    first.child.stdin.end()
    assert.deepStrictEqual(await first.exit, [0, null])
    const second = started("suspended.db")
    second.send({ _tag: "SessionResumeLast" })
    second.send(approve(asked.event.event.request.requestId))
    await second.next(({ event }) => event?.event._tag === "task.completed")
    second.child.stdin.end()
    assert.deepStrictEqual(await second.exit, [0, null])
  })

  it("refuses unknown options", async () => {
    const { client: model } = ScriptedModel.make([])
    await using fermata = await createFermata({ agents: [agent("clerk")], model, store: ":memory:" })
    const error = await serveStdio(fermata, { inputt: 1 } as never).catch((error: Error) => error)
    assert.match(String(error), /inputt/)
  })
})
