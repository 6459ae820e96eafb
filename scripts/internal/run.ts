/**
 * Runs child processes for the scripts: Node 24 of the workspace first on the PATH, output kept rather than mixed, and a time limit, so
 * that a hanging program is a failure with a name.
 */
import { spawn } from "node:child_process"
import * as Path from "node:path"
import { sourceFlags } from "./sourceFlags.ts"

export const root = Path.join(import.meta.dirname, "../..")

/** The environment of every child: no colours, and the workspace's own binaries (Node 24 among them) first. */
export const environment: NodeJS.ProcessEnv = {
  ...process.env,
  NO_COLOR: "1",
  FORCE_COLOR: "0",
  TSTYCHE_NO_COLOR: "1",
  // TypeScript 7 has no JavaScript API; the type test runner would download a TypeScript 6 that the lockfile does not know.
  TSTYCHE_TYPESCRIPT_MODULE: "typescript-6",
  PATH: [Path.join(root, "node_modules/.bin"), process.env["PATH"]].join(Path.delimiter)
}

export interface RunResult {
  readonly ok: boolean
  readonly code: number | null
  /** stdout and stderr, interleaved as they came. */
  readonly output: string
  readonly stdout: string
  readonly durationMs: number
}

export interface ProcessOptions {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  readonly timeoutMs?: number
}

export const run = (
  command: string,
  args: ReadonlyArray<string>,
  options: ProcessOptions = {}
): Promise<RunResult> =>
  new Promise((resolve) => {
    const started = performance.now()
    const timeoutMs = options.timeoutMs ?? 600_000
    const child = spawn(command, args, {
      cwd: options.cwd ?? root,
      env: { ...environment, ...options.env },
      // No terminal: a program that would prompt a person must print its alternative.
      stdio: ["ignore", "pipe", "pipe"]
    })
    let output = ""
    let stdout = ""
    const timer = setTimeout(() => {
      output += `\n(stopped: still running after ${timeoutMs} ms)\n`
      child.kill("SIGKILL")
    }, timeoutMs)
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text
      stdout += text
    })
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      output += text
    })
    const finish = (code: number | null) => {
      clearTimeout(timer)
      resolve({ ok: code === 0, code, output, stdout, durationMs: performance.now() - started })
    }
    child.on("error", (error) => {
      output += String(error)
      finish(null)
    })
    child.on("close", finish)
  })

/** Runs a Node program of the workspace with {@link sourceFlags}. */
export const runNode = (args: ReadonlyArray<string>, options?: ProcessOptions) =>
  run("node", [...sourceFlags, ...args], options)

/** Maps in order with at most `width` running at once (the machine has few cores, and processes are heavy). */
export const mapWidth = async <A, B>(
  items: ReadonlyArray<A>,
  width: number,
  f: (item: A) => Promise<B>
): Promise<ReadonlyArray<B>> => {
  const results = Array.from<B>({ length: items.length })
  const entries = items.entries()
  const worker = async () => {
    for (const [index, item] of entries) results[index] = await f(item)
  }
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, worker))
  return results
}

export const indent = (text: string) => text.trimEnd().replace(/^/gm, "    ")
