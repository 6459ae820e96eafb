import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, describe, it } from "@effect/vitest"
import { agent, createFermata, logEvents, readEventLog, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import type { RuntimeEventEnvelope } from "@fermata/sdk/control"

const directory = mkdtempSync(join(tmpdir(), "fermata-log-"))
afterAll(() => rmSync(directory, { recursive: true }))

type Envelope = RuntimeEventEnvelope.RuntimeEventEnvelope

/** Runs prompts in a plane that is logged to a file. Returns the events as a subscriber received them. */
const logged = async (
  name: string,
  prompts: number,
  options: { readonly maxBytes?: number; readonly keep?: number } = {}
) => {
  const path = join(directory, name)
  const look = tool("look", {
    safety: "readOnly",
    handler: (_, { output }) => {
      output({ stream: "stderr", chunk: "a warning\n" })
      return "seen"
    }
  })
  const script = Array.from({ length: prompts }, (_, index) => [
    { text: `Looking ${index}. `, chunkSize: 3, calls: [{ tool: "look" }] },
    { text: `Answer ${index} with ünïcödé \u2028 and "quotes".`, chunkSize: 4 }
  ]).flat()
  await using fermata = await createFermata({
    agents: [agent("clerk", { tools: [look] })],
    model: ScriptedModel.make(script).client,
    store: ":memory:"
  })
  await using plane = await fermata.controlPlane()
  const logging = logEvents(plane, { path, ...options })
  for (let index = 0; index < prompts; index += 1) {
    const answer = await plane.submit({ _tag: "SubmitPrompt", prompt: `Prompt ${index}` })
    if (answer._tag !== "TaskStarted") assert.fail(answer._tag)
    for await (const { event } of plane.events())
      if (event._tag === "session.saved" && event.taskId === answer.taskId) break
  }
  await plane.submit({ _tag: "Shutdown" })
  await logging
  const events: Array<Envelope> = []
  for await (const envelope of plane.events()) events.push(envelope)
  return { path, events }
}

const readAll = async (path: string) => {
  const read: Array<Envelope> = []
  for await (const envelope of readEventLog(path)) read.push(envelope)
  return read
}

describe("an event log", () => {
  it("has one line for each event, in order, and reads back to the same events", async () => {
    const { events, path } = await logged("whole.jsonl", 2)
    const lines = readFileSync(path, "utf8").split("\n")
    assert.strictEqual(lines.pop(), "")
    assert.strictEqual(lines.length, events.length)
    assert.deepStrictEqual(await readAll(path), events)
  })

  it("begins a new file above its size, and keeps as many earlier ones as it is allowed", async () => {
    const { events, path } = await logged("turned.jsonl", 6, { maxBytes: 4000, keep: 3 })
    const files = readdirSync(directory).filter((name) => name.startsWith("turned.jsonl"))
    assert.deepStrictEqual(files.toSorted(), [
      "turned.jsonl",
      "turned.jsonl.1",
      "turned.jsonl.2",
      "turned.jsonl.3"
    ])
    for (const name of files) assert.isAtMost(statSync(join(directory, name)).size, 4000)
    const read: Array<Envelope> = []
    for (const number of [".3", ".2", ".1", ""]) read.push(...(await readAll(`${path}${number}`)))
    assert.deepStrictEqual(read, events.slice(-read.length))
  })

  it("skips the last line of a program that was killed, and the events of later versions of the program", async () => {
    const { events, path } = await logged("killed.jsonl", 1)
    const later = {
      v: 1,
      seq: 999,
      tsUnixMs: 1,
      event: { family: "Model", _tag: "model.dreamt", sessionId: "s" }
    }
    appendFileSync(path, `${JSON.stringify(later)}\n{"v":1,"seq":10`)
    assert.deepStrictEqual(await readAll(path), events)
  })

  it("is refused with a sentence if it has another version", async () => {
    const path = join(directory, "newer.jsonl")
    writeFileSync(path, `${JSON.stringify({ v: 2, seq: 1, tsUnixMs: 1, event: {} })}\n\n`)
    const error: unknown = await readAll(path).catch((error: unknown) => error)
    assert.strictEqual(
      (error as Error).message,
      "This event has the version 2, and this program reads version 1: update the program that reads it."
    )
  })

  it("rejects if its directory does not exist, and the tasks of the plane go on", async () => {
    await using fermata = await createFermata({
      agents: [agent("clerk")],
      model: ScriptedModel.make(["Hello."]).client,
      store: false
    })
    await using plane = await fermata.controlPlane()
    const failed = logEvents(plane, { path: join(directory, "missing", "x.jsonl") }).then(
      () => "written",
      () => "refused"
    )
    await plane.submit({ _tag: "SubmitPrompt", prompt: "Hi" })
    for await (const { event } of plane.events()) if (event._tag === "task.completed") break
    assert.strictEqual(await failed, "refused")
    assert.isFalse(existsSync(join(directory, "missing")))
  })
})
