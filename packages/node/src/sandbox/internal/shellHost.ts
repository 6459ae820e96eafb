/**
 * Runs scripts of a POSIX shell on the machine of a sandbox, to reach its files and processes.
 */
import { spawn } from "node:child_process"
import * as Effect from "effect/Effect"

/** The script could not be run to its end. */
export class HostFailed extends Error {
  readonly _tag = "HostFailed"
  /** Whether the script certainly did not start. */
  readonly notStarted: boolean
  /** What went wrong, in a clause that ends without a full stop. */
  readonly problem: string
  /** Whether the same attempt may succeed later. */
  readonly retryable: boolean

  constructor(problem: string, notStarted: boolean, retryable = true) {
    super(problem)
    this.problem = problem
    this.notStarted = notStarted
    this.retryable = retryable
  }
}

/** How a script ended. */
interface ScriptEnd {
  readonly exitCode: number
  readonly stdout: Buffer
}

/** The arguments and the input of a script. */
export interface ScriptOptions {
  readonly args?: ReadonlyArray<string>
  /** Its standard input. Default: none. */
  readonly input?: Uint8Array
  /** Whether its output may be other than text. Default: it is text. */
  readonly isBinary?: boolean
}

/** Runs scripts on a machine. */
export interface ShellHost {
  /** Runs a script to its end. An interruption leaves a script that has started to itself. */
  readonly run: (script: string, options?: ScriptOptions) => Effect.Effect<ScriptEnd, HostFailed>
  /** Runs a script and passes its output on while it runs. */
  readonly follow: (
    script: string,
    options: ScriptOptions & { readonly onOutput: (bytes: Buffer) => void }
  ) => Effect.Effect<number, HostFailed>
}

/** A program on this machine, which is started without a shell. */
export interface Program {
  readonly program: string
  readonly args: ReadonlyArray<string>
  readonly env?: Readonly<Record<string, string>> | undefined
}

/** The end of a program: its exit code, `undefined` if a signal ended it, and the last part of its standard error. */
export interface ProgramEnd {
  readonly exitCode: number | undefined
  /** The end of its standard error. */
  readonly stderr: string
}

const maxStderr = 4000

/** Runs a program of this machine. Its interruption ends it. */
export const runProgram = (
  { args, env, program }: Program,
  options: { readonly input?: Uint8Array | undefined; readonly onOutput?: (bytes: Buffer) => void } = {}
): Effect.Effect<ProgramEnd, HostFailed> =>
  Effect.callback<ProgramEnd, HostFailed>((resume) => {
    const child = spawn(program, args, {
      stdio: [options.input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
      ...(env === undefined ? {} : { env: { ...env } })
    })
    let stderr = ""
    child.stdout?.on("data", (bytes: Buffer) => options.onOutput?.(bytes))
    child.stderr?.on("data", (bytes: Buffer) => {
      stderr = (stderr + bytes.toString()).slice(-maxStderr)
    })
    child.once("error", (error) => {
      const isMissing = "code" in error && error.code === "ENOENT"
      const problem = isMissing
        ? `the program ${program} is not installed`
        : `the program ${program} did not start`
      resume(Effect.fail(new HostFailed(problem, true, !isMissing)))
    })
    child.once("close", (code) => resume(Effect.succeed({ exitCode: code ?? undefined, stderr })))
    // A program that ends without having read its input closes the pipe.
    child.stdin?.on("error", () => undefined)
    child.stdin?.end(options.input)
    return Effect.sync(() => child.kill("SIGTERM"))
  })

/** Runs a program of this machine and collects its output. */
export const collectProgram = (
  program: Program,
  input?: Uint8Array
): Effect.Effect<ProgramEnd & { readonly stdout: Buffer }, HostFailed> =>
  Effect.suspend(() => {
    const chunks: Array<Buffer> = []
    return Effect.map(runProgram(program, { input, onOutput: (bytes) => chunks.push(bytes) }), (end) => ({
      ...end,
      stdout: Buffer.concat(chunks)
    }))
  })

/** The shell of this machine, with these variables. */
export const localHost = (env: Readonly<Record<string, string>>): ShellHost => {
  const shell = (script: string, args: ReadonlyArray<string> = []) => ({
    program: "sh",
    args: ["-c", script, "sh", ...args],
    env
  })
  return {
    run: (script, { args, input } = {}) =>
      Effect.flatMap(collectProgram(shell(script, args), input), ({ exitCode, stdout }) =>
        exitCode === undefined
          ? Effect.fail(new HostFailed("the shell of this machine was ended", false))
          : Effect.succeed({ exitCode, stdout })
      ),
    follow: (script, { args, input, onOutput }) =>
      Effect.flatMap(runProgram(shell(script, args), { input, onOutput }), ({ exitCode }) =>
        exitCode === undefined
          ? Effect.fail(new HostFailed("the shell of this machine was ended", false))
          : Effect.succeed(exitCode)
      )
  }
}
