/**
 * Finds the files that contain a pattern with ripgrep, where it is installed. Its answer is a list of names: each file is read by the tool itself,
 * through the rules of the place.
 */
import { execFile } from "node:child_process"
import { accessSync, constants, realpathSync, statSync } from "node:fs"
import { delimiter, isAbsolute, join as joinPath, relative } from "node:path"
import * as Effect from "effect/Effect"
import type { Place } from "./places.ts"

export interface RipgrepSearch {
  /** `undefined` finds all files. */
  readonly pattern: string | undefined
  readonly isLiteral: boolean
  readonly isCaseIgnored: boolean
  readonly isAll: boolean
  readonly directory: string
  /** Files that are larger, in bytes, are left out. */
  readonly maxFileSize: number
  readonly timeoutMs: number
}

/** The most bytes of names that are read. */
const maxBytes = 4 * 1024 * 1024

/**
 * The paths of the files, relative to the directory; `isComplete` says whether these are all. `undefined` if ripgrep is not installed or
 * failed.
 */
export const findWithRipgrep = (
  place: Place,
  search: RipgrepSearch
): Effect.Effect<{ readonly paths: ReadonlyArray<string>; readonly isComplete: boolean } | undefined> =>
  Effect.map(
    place.exec === undefined ? onMachine(place.workdir, search) : inSandbox(place.exec, search),
    (answer) => {
      // 1: nothing was found.
      if (answer === undefined || (answer.exitCode !== 0 && answer.exitCode !== 1 && answer.isComplete))
        return undefined
      const names = answer.stdout.split("\0")
      // The text after the last NUL is an incomplete name.
      names.pop()
      const prefix = search.directory === "." ? "./" : `${search.directory.replace(/\/+$/, "")}/`
      const paths = names.flatMap((name) => (name.startsWith(prefix) ? [name.slice(prefix.length)] : []))
      return { paths: paths.sort(), isComplete: answer.isComplete }
    }
  )

const argumentsOf = (search: RipgrepSearch): ReadonlyArray<string> => [
  "--no-config",
  "--null",
  "--color=never",
  "--no-messages",
  "--crlf",
  "--no-require-git",
  "--no-ignore-global",
  "--no-ignore-exclude",
  `--max-filesize=${search.maxFileSize}`,
  ...(search.isAll ? ["--hidden", "--no-ignore", "--glob=!.git"] : []),
  ...(search.pattern === undefined
    ? ["--files"]
    : [
        "--files-with-matches",
        ...(search.isLiteral ? ["--fixed-strings"] : []),
        ...(search.isCaseIgnored ? ["--ignore-case"] : []),
        `--regexp=${search.pattern}`
      ]),
  "--",
  search.directory === "." ? "./" : search.directory
]

interface Answer {
  readonly exitCode: number
  readonly stdout: string
  readonly isComplete: boolean
}

const inSandbox = (
  exec: NonNullable<Place["exec"]>,
  search: RipgrepSearch
): Effect.Effect<Answer | undefined> =>
  exec(["rg", ...argumentsOf(search)], { timeout: search.timeoutMs, maxOutputBytes: maxBytes }).pipe(
    Effect.map(({ exitCode, missing, stdout, timedOut }) =>
      // The output was cut in its middle, which could join two names.
      missing.stdout > 0 ? undefined : { exitCode, stdout, isComplete: !timedOut }
    ),
    Effect.catch(() => Effect.succeed(undefined))
  )

const onMachine = (workdir: string, search: RipgrepSearch): Effect.Effect<Answer | undefined> =>
  Effect.callback((resume) => {
    const program = programOutside(workdir)
    if (program === undefined) return resume(Effect.succeed(undefined))
    const child = execFile(
      program,
      [...argumentsOf(search)],
      {
        cwd: workdir,
        env: { LANG: "C.UTF-8" },
        maxBuffer: maxBytes,
        timeout: search.timeoutMs,
        killSignal: "SIGKILL"
      },
      (error, stdout) => {
        const code = error === null ? 0 : error.code
        const isCut =
          error?.killed === true ||
          (error as { code?: unknown } | null)?.code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER"
        resume(
          Effect.succeed(
            typeof code === "number" || isCut
              ? { exitCode: typeof code === "number" ? code : 0, stdout, isComplete: !isCut }
              : undefined
          )
        )
      }
    )
    return Effect.sync(() => void child.kill("SIGKILL"))
  })

/** The first ripgrep on the PATH outside of the workspace, where a model cannot have written it. */
const programOutside = (workdir: string): string | undefined => {
  const root = realpathSync(workdir)
  for (const directory of (process.env["PATH"] ?? "").split(delimiter)) {
    if (!isAbsolute(directory)) continue
    const path = joinPath(directory, process.platform === "win32" ? "rg.exe" : "rg")
    try {
      if (!statSync(path).isFile()) continue
      accessSync(path, constants.X_OK)
      const inside = relative(root, realpathSync(path))
      if (inside.startsWith("..") || isAbsolute(inside)) return path
    } catch {
      // The next directory.
    }
  }
  return undefined
}
