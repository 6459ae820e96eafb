/**
 * Runs one command by a spawner, to its end, its timeout or its interruption, and keeps a limited part of its output.
 *
 * @internal
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as PlatformError from "effect/PlatformError"
import * as ChildProcess from "effect/process/ChildProcess"
import type { ChildProcessHandle, ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Stream from "effect/Stream"
import type { Command, ExecOptions, ExecResult, OutputChunk } from "../Sandbox.ts"
import { CommandFailed, type SandboxError } from "../SandboxError.ts"
import { OutputKeeper } from "./OutputKeeper.ts"

const defaultMaxOutputBytes = 65_536

/** How long a command that is stopped may take before SIGKILL. */
const killAfter = Duration.millis(500)

/**
 * How long the output is read after the command's end, if a process that it left behind keeps it open. In steps, between which a busy event
 * loop delivers what was written: one timer could be over before the first read.
 */
const drainStep = Duration.millis(20)
const drainSteps = 10

const toChildProcess = (
  command: Command,
  options: Pick<ExecOptions, "cwd" | "env"> = {}
): ChildProcess.Command => {
  const [program, ...args] = typeof command === "string" ? (["sh", "-c", command] as const) : command
  return ChildProcess.make(program, args, {
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.env === undefined ? {} : { env: options.env }),
    stdin: "ignore",
    forceKillAfter: killAfter
  })
}

export const execBy =
  (spawner: ChildProcessSpawner["Service"], backend: string) =>
  (command: Command, options: ExecOptions = {}): Effect.Effect<ExecResult, SandboxError> =>
    Effect.gen(function* () {
      const startedAt = yield* Clock.currentTimeMillis
      const limit = options.maxOutputBytes ?? defaultMaxOutputBytes
      const kept = { stdout: new OutputKeeper(limit), stderr: new OutputKeeper(limit) }
      const body = Effect.gen(function* () {
        const handle = yield* Effect.mapError(
          spawner.spawn(toChildProcess(command, options)),
          (error) =>
            ownErrorOf(error) ?? CommandFailed.make({ backend, problem: problemOf(error), notStarted: true })
        )
        const read = (stream: OutputChunk["stream"]) =>
          Effect.forkScoped(readInto(handle, stream, kept[stream], options.onOutput))
        const reading = [yield* read("stdout"), yield* read("stderr")]
        const exitCode = yield* exitCodeOf(handle, backend)
        yield* Effect.raceFirst(
          Effect.forEach(reading, (fiber) => Fiber.await(fiber), { discard: true }),
          Effect.asVoid(Effect.repeat(Effect.sleep(drainStep), { times: drainSteps - 1 }))
        )
        return exitCode
      }).pipe(Effect.scoped)
      const ended =
        options.timeout === undefined
          ? Option.some(yield* body)
          : yield* Effect.timeoutOption(body, options.timeout)
      const stdout = kept.stdout.end()
      const stderr = kept.stderr.end()
      return {
        exitCode: Option.getOrElse(ended, () => timeoutExitCode),
        stdout: stdout.text,
        stderr: stderr.text,
        missing: { stdout: stdout.missing, stderr: stderr.missing },
        durationMs: (yield* Clock.currentTimeMillis) - startedAt,
        timedOut: Option.isNone(ended)
      }
    })

/** The exit code of `timeout(1)` for a command whose time was over. */
const timeoutExitCode = 124

const readInto = (
  handle: ChildProcessHandle,
  stream: OutputChunk["stream"],
  keeper: OutputKeeper,
  onOutput: ExecOptions["onOutput"]
) => {
  const decoder = new TextDecoder()
  const publish = (chunk: string) => {
    if (chunk !== "") onOutput?.({ stream, chunk })
  }
  return Stream.runForEach(handle[stream], (bytes) =>
    Effect.sync(() => {
      keeper.add(bytes)
      if (onOutput !== undefined) publish(decoder.decode(bytes, { stream: true }))
    })
  ).pipe(Effect.ensuring(Effect.sync(() => publish(decoder.decode()))), Effect.ignore)
}

const exitCodeOf = (handle: ChildProcessHandle, backend: string): Effect.Effect<number, SandboxError> =>
  Effect.catch(handle.exitCode, (error) => {
    const signal = signalOf(error)
    return signal === undefined
      ? Effect.fail(ownErrorOf(error) ?? CommandFailed.make({ backend, problem: problemOf(error) }))
      : Effect.succeed(128 + signal)
  })

/** The error with which a sandbox of a backend's own spawner fails is the cause of the spawner's error. */
const ownErrorOf = (error: PlatformError.PlatformError): SandboxError | undefined => {
  const { cause } = error.reason
  const isOwn = cause instanceof Error && "_tag" in cause && ownTags.has(String(cause._tag))
  return isOwn ? (cause as SandboxError) : undefined
}

/** By the tag, because a backend may come from another copy of the package. */
const ownTags: ReadonlySet<string> = new Set([
  "SandboxUnavailable",
  "SandboxLost",
  "CapabilityMissing",
  "CommandFailed"
])

/** Effect reports a process that a signal ended as an error whose cause names the signal. */
const signalOf = (error: PlatformError.PlatformError): number | undefined => {
  const cause = error.reason.cause
  const name = cause instanceof Error ? /signal: '(SIG[A-Z0-9]+)'/.exec(cause.message)?.[1] : undefined
  return name === undefined ? undefined : (signals[name] ?? 0)
}

const signals: Readonly<Record<string, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGBUS: 7,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGUSR1: 10,
  SIGSEGV: 11,
  SIGUSR2: 12,
  SIGPIPE: 13,
  SIGALRM: 14,
  SIGTERM: 15
}

const problems: Readonly<Record<string, string>> = {
  NotFound: "the program or its working directory does not exist",
  PermissionDenied: "its program or working directory may not be used",
  BadArgument: "its arguments, directory or variables are not valid"
}

const problemOf = (error: PlatformError.PlatformError): string =>
  problems[error.reason._tag] ?? "the operating system refused it"
