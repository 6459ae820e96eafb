/**
 * Starts `worker.ts` and reads its reports.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process"
import * as Path from "node:path"
import { createInterface } from "node:readline"
import type { Report } from "./worker.ts"

export interface Worker {
  readonly child: ChildProcessWithoutNullStreams
  /** The next report. Rejects if the worker exits without one. */
  readonly nextReport: () => Promise<Report>
}

export const startWorker = (...args: ReadonlyArray<string>): Worker => {
  const program = Path.join(import.meta.dirname, "worker.ts")
  const child = spawn(process.execPath, [...process.execArgv, program, ...args], { stdio: "pipe" })
  let stderr = ""
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    child,
    nextReport: async () => {
      const line = await lines.next()
      if (line.done === true) throw new Error(`A worker ended early. ${stderr}`)
      return JSON.parse(line.value) as Report
    }
  }
}
