/**
 * @title Resume after a kill, by the run's id
 *
 * This program starts itself as a child process. The child's run is held, and then the child is killed with SIGKILL, without any
 * clean-up. The parent knows only the run's id and the file. The model is scripted, separately in each process.
 */
import assert from "node:assert/strict"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as Fs from "node:fs"
import { agent, approve, createFermata, Schema, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const shelf = tool("shelf", { safety: "readOnly", handler: () => "the last one" })
const order = tool("order", {
  parameters: Schema.Struct({ book: Schema.String }),
  handler: ({ book }, { idempotencyKey }) => {
    Fs.appendFileSync("orders.txt", `${book} (${idempotencyKey})\n`)
    return "ordered"
  }
})
const model = ScriptedModel.make(({ messages, turn }) =>
  turn === 1
    ? { calls: [{ tool: "shelf" }, { tool: "order", arguments: { book: "Middlemarch" } }] }
    : `Settled: ${messages.flatMap((message) => (message.role === "tool" ? [message.outcome] : [])).join(", ")}.`
)
const open = () =>
  createFermata({
    agents: [agent("librarian", { tools: [shelf, order] })],
    model: model.client,
    store: "library.db"
  })

/** The first process: runs the prompt until it is held, prints the run's id, and keeps running. */
const hold = async () => {
  const fermata = await open()
  const run = await fermata.runPrompt("librarian", "We are running out of Middlemarch.")
  process.stdout.write(`${run.runId}\n`)
  setInterval(() => {}, 1000)
}

export const main = async () => {
  const child = spawn(process.execPath, [...process.execArgv, import.meta.filename, "hold"], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  const [line] = (await once(child.stdout.setEncoding("utf8"), "data")) as [string]
  const runId = line.trim()
  child.kill("SIGKILL")
  const [, signal] = await once(child, "exit")
  assert.equal(signal, "SIGKILL")
  assert.equal(Fs.existsSync("orders.txt"), false)
  console.log(`${runId} is held; the process that held it is dead`)

  await using fermata = await open()
  const still = await fermata.resume(runId)
  assert(still.status === "interrupted")
  for (const request of still.interruptions) await fermata.decide(request, approve())
  const done = await fermata.resume(runId)
  assert(done.status === "completed")
  assert.equal(done.text, "Settled: completed, completed.")

  // This process called its model once, because the file has the first answer. The order was placed once.
  assert.equal(model.requests.length, 1)
  assert.equal(Fs.readFileSync("orders.txt", "utf8"), `Middlemarch (${runId}.t1.2)\n`)
  console.log(done.text, Fs.readFileSync("orders.txt", "utf8").trim())
}

if (import.meta.main) await (process.argv[2] === "hold" ? hold() : main())
