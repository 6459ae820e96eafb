/**
 * The processes that the demonstration starts. `hold` runs a prompt until the run is held, and waits to be killed. `release`
 * waits for a word on its standard input, then decides the run's requests. The first process resumes the run to its end; the other reports
 * the error that it gets.
 */
import { once } from "node:events"
import { approve, Id, isAlreadyDecided } from "@fermata/node"
import { openEditor } from "./agent.ts"

/** A worker's report to the process that started it: one line of JSON. */
export type Report =
  | { readonly _tag: "held"; readonly runId: string; readonly ran: ReadonlyArray<string> }
  | { readonly _tag: "ready" }
  | { readonly _tag: "won"; readonly text: string }
  | { readonly _tag: "lost"; readonly message: string; readonly by: string }

const send = (report: Report) => process.stdout.write(`${JSON.stringify(report)}\n`)

const hold = async (directory: string) => {
  const fermata = await openEditor(directory, "first-process")
  const run = await fermata.runPrompt("editor", "Publish change 1.", { runId: "notes-1" })
  const ran = run.state.history.tail.flatMap((message) => (message.role === "tool" ? [message.name] : []))
  send({ _tag: "held", runId: run.runId, ran })
  // Keeps the process alive until it is killed.
  setInterval(() => {}, 1000)
}

const release = async (directory: string, owner: string, runId: string) => {
  await using fermata = await openEditor(directory, owner)
  const pending = await fermata.pending({ runId: Id.RunId.make(runId) })
  send({ _tag: "ready" })
  await once(process.stdin, "data")
  process.stdin.destroy()
  try {
    for (const asked of pending) await fermata.decide(asked, approve())
  } catch (error) {
    if (!isAlreadyDecided(error)) throw error
    send({ _tag: "lost", message: error.message, by: error.by })
    return
  }
  let done = await fermata.resume(runId)
  // The edit was approved; the run is held again before its command.
  while (done.status === "interrupted") {
    for (const request of done.interruptions) await fermata.decide(request, approve())
    done = await fermata.resume(runId)
  }
  send({ _tag: "won", text: done.status === "completed" ? done.text : done.status })
}

const [task, directory = "", owner = "", runId = ""] = process.argv.slice(2)
await (task === "hold" ? hold(directory) : release(directory, owner, runId))
