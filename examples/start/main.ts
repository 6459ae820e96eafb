/**
 * The demonstration of `npm start`: an agent reads and edits a real directory and runs a real command, and its run is held in one process and
 * released in another, twice.
 *
 * The first process is killed with SIGKILL while its run is held at an edit. The second process knows only the file: it lists the pending
 * requests, shows the diff and then the exact command, records the decisions, and completes the run. Then two workers try to release one run.
 */
import { once } from "node:events"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import {
  approve,
  Display,
  type Fermata,
  type Interruption,
  isEditedArgumentsInvalid,
  type RunStore
} from "@fermata/node"
import { evidence, openEditor, prepare, storeOf } from "./agent.ts"
import { type Answer, BadOption, parseOptions, usage } from "./options.ts"
import { startWorker, type Worker } from "./processes.ts"
import { ask, hasTerminal, shown } from "./terminal.ts"
import { bytesPerTurn, timeline } from "./timeline.ts"

const workers: Array<Worker> = []
const start = (...args: ReadonlyArray<string>): Worker => {
  const worker = startWorker(...args)
  workers.push(worker)
  return worker
}

/** Holds a run in a process, kills the process, and returns the run's id. */
const holdAndKill = async (directory: string): Promise<string> => {
  const { child, nextReport } = start("hold", directory)
  const held = await nextReport()
  if (held._tag !== "held") throw new Error("The first process did not hold its run.")
  console.log(`\n1  A first process (${child.pid}) runs the agent "editor".`)
  console.log(`   ran       ${held.ran.join(", ")}: it only reads, so it needs no approval`)
  console.log(`   held      ${held.runId}`)
  child.kill("SIGKILL")
  const [, signal] = await once(child, "exit")
  console.log(`   ended     by ${signal}; the page has ${count(evidence(directory).notes.length, "note")}`)
  return held.runId
}

/** Records the decision of a flag or of the person at the terminal. Returns false if there is none. */
const takeDecision = async (
  fermata: Fermata.Fermata,
  asked: RunStore.PendingRequest,
  flag: Answer | undefined
): Promise<boolean> => {
  for (;;) {
    const answer = flag ?? (hasTerminal() ? await ask() : approve())
    if (answer === undefined) return false
    try {
      const decision = await fermata.decide(asked, answer, { by: process.env["USER"] ?? "you" })
      const alone =
        flag === undefined && !hasTerminal() ? " (no terminal to ask at; see npm start -- --help)" : ""
      console.log(`   decided   ${decision._tag} by ${Display.line(decision.by)}${alone}`)
      return true
    } catch (error) {
      if (!isEditedArgumentsInvalid(error)) throw error
      if (flag !== undefined) throw new BadOption(error.message)
      console.log(`   refused   ${Display.line(error.message)}`)
    }
  }
}

/** Shows a call to the person who decides: the tool, its risk, and the diff or the command. */
const show = (request: Extract<Interruption.Interruption, { readonly _tag: "approval" }>): void => {
  console.log(`   pending   ${request.requestId}, asked by ${request.agentPath.join(" > ")}`)
  console.log(`   the call  ${Display.line(request.tool)}`)
  for (const line of Display.text(request.preview ?? shown(request.arguments)).split("\n"))
    console.log(`             ${line}`.trimEnd())
  if (request.risk !== undefined) console.log(`   risk      ${Display.line(request.risk)}`)
}

/** Decides the requests of a run, and resumes it until it is completed. Returns false if there was no decision. */
const release = async (
  fermata: Fermata.Fermata,
  runId: string,
  flag: Answer | undefined
): Promise<boolean> => {
  console.log(`\n2  A second process (${process.pid}) has the file, and nothing else.`)
  let answer = flag
  for (;;) {
    for (const asked of await fermata.pending()) {
      if (asked.request._tag !== "approval") continue
      show(asked.request)
      if (!(await takeDecision(fermata, asked, answer))) return false
      // Edited arguments are for one call. The next one runs as it was asked for.
      if (answer?._tag === "approve") answer = approve()
    }
    const run = await fermata.resume(runId)
    if (run.status === "interrupted") {
      console.log("   held      again, before the next call")
      continue
    }
    console.log(`   ${run.status} ${run.status === "completed" ? shown(run.text) : ""}`)
    return true
  }
}

/** Starts two workers that release one run at the same moment. */
const race = async (directory: string, fermata: Fermata.Fermata): Promise<string> => {
  const held = await fermata.runPrompt("editor", "Publish change 2.", { runId: "notes-2" })
  console.log(`\n4  Two workers release ${held.runId} at the same time.`)
  const two = ["worker-1", "worker-2"].map((name) => ({
    name,
    worker: start("release", directory, name, held.runId)
  }))
  await Promise.all(two.map(({ worker }) => worker.nextReport()))
  for (const { worker } of two) worker.child.stdin.write("go\n")
  const ends = await Promise.all(
    two.map(async ({ name, worker }) => ({ name, report: await worker.nextReport() }))
  )
  for (const { name, report } of ends) {
    if (report._tag === "won") console.log(`   ${name}  won, and finished the run: ${shown(report.text)}`)
    if (report._tag === "lost") console.log(`   ${name}  lost: ${Display.line(report.message)}`)
  }
  const winners = ends.filter(({ report }) => report._tag === "won")
  if (winners.length !== 1) throw new Error(`${winners.length} workers won.`)
  return held.runId
}

/** Prints the journal's size, and checks that each approved call ran exactly once. */
const account = async (
  directory: string,
  fermata: Fermata.Fermata,
  runIds: ReadonlyArray<string>
): Promise<boolean> => {
  console.log("\n5  On disk")
  for (const runId of runIds) {
    const turns = bytesPerTurn(storeOf(directory), runId)
    const each = turns.map(
      ({ bytes, rows }, index) => `turn ${index + 1}: ${bytes} bytes in ${count(rows, "row")}`
    )
    console.log(`   ${runId}   ${each.join(" · ")}`)
  }
  const approved = { edit_file: 0, run_shell: 0 }
  for (const runId of runIds)
    for (const { decision, request } of (await fermata.state(runId)).requests)
      if (
        decision?._tag === "approve" &&
        request._tag === "approval" &&
        Object.hasOwn(approved, request.tool)
      )
        approved[request.tool as keyof typeof approved] += 1
  const { notes, published } = evidence(directory)
  const ok = notes.length === approved.edit_file && published === approved.run_shell
  console.log(
    `   the site   ${count(notes.length, "note")} for ${count(approved.edit_file, "approved edit")}, published ${count(published, "time")} by ${count(approved.run_shell, "approved command")}: ${ok ? "each ran exactly once" : "not what was approved!"}`
  )
  for (const line of notes) console.log(`              ${Display.line(line)}`)
  return ok
}

const count = (number: number, what: string): string => `${number} ${what}${number === 1 ? "" : "s"}`

const demonstrate = async (directory: string, flag: Answer | undefined): Promise<boolean> => {
  console.log("Fermata holds an agent run at a risky call and releases it in another process.")
  console.log("The model is scripted; the processes, the database, the files and the command are real.")
  const first = await holdAndKill(directory)
  await using fermata = await openEditor(directory, "second-process")
  if (!(await release(fermata, first, flag))) {
    console.log("\n\nThere was no decision: the run stays held, and the call has not run.")
    return true
  }
  console.log(`\n3  What happened, as the file has it`)
  for (const line of await timeline(fermata, first)) console.log(line)
  const second = await race(directory, fermata)
  return await account(directory, fermata, [first, second])
}

const main = async (): Promise<number> => {
  const options = parseOptions(process.argv.slice(2))
  if (options.help) {
    console.log(usage)
    return 0
  }
  const directory = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-start-"))
  try {
    prepare(directory)
    return (await demonstrate(directory, options.answer)) ? 0 : 1
  } finally {
    for (const { child } of workers) child.kill("SIGKILL")
    if (options.keep) console.log(`\nEverything is in ${directory}`)
    else Fs.rmSync(directory, { recursive: true, force: true })
  }
}

try {
  process.exitCode = await main()
} catch (error) {
  if (!(error instanceof BadOption)) throw error
  console.error(Display.line(error.message))
  console.error(usage)
  process.exitCode = 2
}
