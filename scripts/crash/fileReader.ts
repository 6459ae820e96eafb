/**
 * Reads files in another process. Closing a descriptor of a database drops the locks that this process has on it, which the
 * connections of a simulated process must keep.
 */
import * as ChildProcess from "node:child_process"
import { once } from "node:events"
import * as Fs from "node:fs"

type Paths = ReadonlyArray<string>

/** Another process that reads files for this one. */
export interface Reader {
  /** The text of each existing file, each byte a character. One request at a time. */
  readonly read: (paths: Paths) => Promise<ReadonlyArray<string>>
  readonly close: () => Promise<void>
}

/** Starts a reader. It ends with this process. */
export const startReader = (): Reader => {
  const child = ChildProcess.fork(import.meta.filename, {
    execArgv: process.execArgv,
    serialization: "advanced"
  })
  return {
    read: async (paths) => {
      const answer = once(child, "message")
      child.send(paths)
      return (await answer)[0] as ReadonlyArray<string>
    },
    close: async () => {
      const ended = once(child, "exit")
      child.disconnect()
      await ended
    }
  }
}

if (import.meta.main) {
  process.on("message", (paths: Paths) => {
    process.send?.(paths.flatMap((path) => (Fs.existsSync(path) ? [Fs.readFileSync(path, "latin1")] : [])))
  })
}
