/**
 * Starting `worker.ts` and hearing what it tells.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process"
import * as Path from "node:path"
import { createInterface } from "node:readline"
import type { Told } from "./worker.ts"

export interface Worker {
  readonly child: ChildProcessWithoutNullStreams
  /** The next thing that it tells. Fails when it ends without. */
  readonly told: () => Promise<Told>
}

export const startWorker = (...args: ReadonlyArray<string>): Worker => {
  const program = Path.join(import.meta.dirname, "worker.ts")
  const child = spawn(process.execPath, [...process.execArgv, program, ...args], { stdio: "pipe" })
  let stderr = ""
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    child,
    told: async () => {
      const line = await lines.next()
      if (line.done === true) throw new Error(`A worker ended early. ${stderr}`)
      return JSON.parse(line.value) as Told
    }
  }
}
