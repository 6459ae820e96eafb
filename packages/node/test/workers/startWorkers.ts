/**
 * Starts processes that work on one store at the same time.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { sourceFlags } from "../../../../scripts/internal/sourceFlags.ts"

const worker = fileURLToPath(new URL("./storeWorker.ts", import.meta.url))

/** What one process did: the outcome of its task, or the message of its error. */
export interface Outcome {
  readonly value?: unknown
  readonly error?: string
}

interface Task {
  readonly filename: string
  readonly task: string
  readonly argument?: unknown
  /** Run as this user, when the tests run as root. */
  readonly uid?: number
}

const start = ({ argument, filename, task, uid }: Task, name: string) => {
  const args = [worker, filename, name, task, JSON.stringify(argument ?? null)]
  const child = spawn(process.execPath, [...sourceFlags, ...args], {
    stdio: ["pipe", "pipe", "inherit"],
    ...(uid === undefined ? {} : { uid, gid: uid })
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return { child, lines, exited: once(child, "exit") }
}

/** Runs a task in `count` processes that begin together, and returns the report of each. */
export const startWorkers = async (
  options: Task & { readonly count: number }
): Promise<ReadonlyArray<Outcome>> => {
  const workers = Array.from({ length: options.count }, (_, index) => start(options, `worker ${index}`))
  for (const { lines } of workers) await lines.next()
  for (const { child } of workers) child.stdin.write("go\n")
  return Promise.all(
    workers.map(async ({ exited, lines }) => {
      let last = ""
      for (let line = await lines.next(); !line.done; line = await lines.next()) last = line.value
      await exited
      return JSON.parse(last) as Outcome
    })
  )
}

/** Starts a task that does not end, kills its process after so many lines, and returns all lines that it printed. */
export const killAfter = async (
  options: Task & { readonly lines: number }
): Promise<ReadonlyArray<string>> => {
  const { child, exited, lines } = start(options, "victim")
  await lines.next()
  child.stdin.write("go\n")
  const printed: Array<string> = []
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    printed.push(line.value)
    if (printed.length === options.lines) child.kill("SIGKILL")
  }
  await exited
  return printed
}
