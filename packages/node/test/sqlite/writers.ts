/**
 * Starts processes that write to a store, and reads their output line by line.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import { sourceFlags } from "../../../../scripts/internal/sourceFlags.ts"

const program = fileURLToPath(new URL("../programs/sqliteWriter.ts", import.meta.url))

/** A writer that is ready to begin. It is killed when the scope ends. `limit` is the largest file it may write, in KiB. */
export const writer = (filename: string, name: string, task: string, limit?: number) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const command = [process.execPath, ...sourceFlags, program, filename, name, task]
      const [file = "", ...args] =
        limit === undefined ? command : ["bash", "-c", `ulimit -S -f ${limit}; exec "$@"`, "bash", ...command]
      const child = spawn(file, args, { stdio: ["pipe", "pipe", "inherit"] })
      const exited = once(child, "exit")
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
      const line = async () => {
        const next = await lines.next()
        if (next.done === true) throw new Error(`The writer ${name} ended early.`)
        return next.value
      }
      await line()
      return {
        pid: child.pid ?? 0,
        /** Lets it continue. */
        go: Effect.sync(() => void child.stdin.write("go\n")),
        line: Effect.promise(line),
        json: Effect.promise(async () => JSON.parse(await line()) as { readonly [key: string]: unknown }),
        exited,
        kill: () => child.kill("SIGKILL")
      }
    }),
    ({ exited, kill }) =>
      Effect.promise(() => {
        kill()
        return exited
      })
  )
