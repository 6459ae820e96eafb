/**
 * Starts processes that work on one store at the same time.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"

const worker = fileURLToPath(new URL("./storeWorker.ts", import.meta.url))

/** What one process did: the outcome of its task, or the message of its error. */
export interface Outcome {
  readonly value?: unknown
  readonly error?: string
}

/** Runs a task in `count` processes that begin together, and gives what each reports. */
export const startWorkers = async (options: {
  readonly filename: string
  readonly task: string
  readonly argument?: unknown
  readonly count: number
  /** Run as this user, when the tests run as root. */
  readonly uid?: number
}): Promise<ReadonlyArray<Outcome>> => {
  const { argument, count, filename, task, uid } = options
  const workers = Array.from({ length: count }, (_, index) => {
    const args = [
      "--conditions=@fermata/source",
      worker,
      filename,
      `worker ${index}`,
      task,
      JSON.stringify(argument ?? null)
    ]
    const child = spawn(process.execPath, args, {
      stdio: ["pipe", "pipe", "inherit"],
      ...(uid === undefined ? {} : { uid, gid: uid })
    })
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    return { child, lines, exited: once(child, "exit") }
  })
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
