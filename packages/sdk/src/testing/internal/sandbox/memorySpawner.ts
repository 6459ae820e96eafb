/**
 * Runs the commands of a sandbox in memory: functions of a test that stand for programs.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as PlatformError from "effect/PlatformError"
import type * as ChildProcess from "effect/process/ChildProcess"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import * as Queue from "effect/Queue"
import * as Redacted from "effect/Redacted"
import * as Sink from "effect/Sink"
import * as Stream from "effect/Stream"
import type { MemoryFiles } from "./MemoryFiles.ts"

/** The input of a command: its arguments, its directory, its files and its output. */
export interface Invocation {
  readonly program: string
  readonly args: ReadonlyArray<string>
  /** The directory in which it starts, as an absolute path. */
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly files: MemoryFiles
  /** Writes to its output. */
  readonly write: (stream: "stdout" | "stderr", text: string | Uint8Array) => void
}

/** A command: returns its exit code, a promise of it, or an effect that returns it and that a stop interrupts. */
export type Command = (invocation: Invocation) => number | Promise<number> | Effect.Effect<number>

/** The options of a spawner: the files and the commands of its sandbox. */
export interface SpawnerOptions {
  readonly files: MemoryFiles
  readonly commands: Readonly<Record<string, Command>>
  readonly shell: Command | undefined
  readonly onStart: (program: string, args: ReadonlyArray<string>, cwd: string) => void
}

/** The exit codes of a shell. */
const notFound = 127
const usage = 2
const stopped = 143

export const memorySpawner = (
  options: SpawnerOptions
): ChildProcessSpawner.ChildProcessSpawner["Service"] => {
  let pids = 0
  return ChildProcessSpawner.make((command) =>
    Effect.gen(function* () {
      if (command._tag === "PipedCommand")
        return yield* refused("BadResource", "A sandbox in memory has no pipelines")
      const { files } = options
      const cwd = files.resolve(command.options.cwd ?? ".")
      if (cwd === undefined)
        return yield* refused("PermissionDenied", "The directory is outside of the working directory")
      if (!files.isDirectory(cwd)) return yield* refused("NotFound", "The directory does not exist")
      const program = command.command
      const args = command.args.map((arg) => (Redacted.isRedacted(arg) ? Redacted.value(arg) : arg))
      options.onStart(program, args, cwd)
      const streams = {
        stdout: yield* Queue.unbounded<Uint8Array, Cause.Done>(),
        stderr: yield* Queue.unbounded<Uint8Array, Cause.Done>()
      }
      const exit = yield* Deferred.make<number>()
      const run = started(options, {
        program,
        args,
        cwd,
        files,
        env: variablesOf(command.options),
        write: (stream, text) =>
          Queue.offerUnsafe(streams[stream], typeof text === "string" ? new TextEncoder().encode(text) : text)
      }).pipe(
        Effect.onExit((end) =>
          Effect.gen(function* () {
            yield* Queue.end(streams.stdout)
            yield* Queue.end(streams.stderr)
            yield* Deferred.succeed(exit, end._tag === "Success" ? end.value : stopped)
          })
        )
      )
      const fiber = yield* Effect.forkScoped(run)
      const stdout = Stream.fromQueue(streams.stdout)
      const stderr = Stream.fromQueue(streams.stderr)
      return ChildProcessSpawner.makeHandle({
        pid: ChildProcessSpawner.ProcessId((pids += 1)),
        exitCode: Effect.map(Deferred.await(exit), ChildProcessSpawner.ExitCode),
        isRunning: Effect.map(Deferred.isDone(exit), (isDone) => !isDone),
        kill: () => Effect.asVoid(Fiber.interrupt(fiber)),
        stdin: Sink.drain,
        stdout,
        stderr,
        all: Stream.merge(stdout, stderr),
        getInputFd: () => Sink.drain,
        getOutputFd: () => Stream.empty,
        unref: Effect.succeed(Effect.void)
      })
    })
  )
}

/** Runs a command. One that throws or fails ends as a program that crashed. */
const started = (options: SpawnerOptions, invocation: Invocation): Effect.Effect<number> =>
  Effect.suspend(() => {
    const { args, program } = invocation
    const isLine = program === "sh" && args[0] === "-c" && args.length === 2
    if (isLine && options.shell !== undefined)
      return ended(options.shell, { ...invocation, args: [args[1] ?? ""] })
    const words = isLine ? wordsOf(args[1] ?? "") : [program, ...args]
    if (words === undefined) {
      invocation.write("stderr", "sh: this sandbox runs one program with its arguments: give it a shell\n")
      return Effect.succeed(usage)
    }
    const [name = "true", ...rest] = words
    const command = Object.hasOwn(options.commands, name)
      ? options.commands[name]
      : Object.hasOwn(builtins, name)
        ? builtins[name]
        : undefined
    if (command !== undefined) return ended(command, { ...invocation, program: name, args: rest })
    invocation.write("stderr", `${name}: not found\n`)
    return Effect.succeed(notFound)
  })

const ended = (command: Command, invocation: Invocation): Effect.Effect<number> =>
  Effect.suspend(() => {
    const result = command(invocation)
    return Effect.isEffect(result) ? result : Effect.promise(async () => result)
  }).pipe(
    Effect.catchCause((cause) => {
      if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
      invocation.write("stderr", `${String(Cause.squash(cause))}\n`)
      return Effect.succeed(1)
    })
  )

/** The words of a line without any other meaning of a shell; `undefined` if it has one. */
const wordsOf = (line: string): ReadonlyArray<string> | undefined => {
  const words: Array<string> = []
  let rest = line.trim()
  while (rest !== "") {
    const found = /^(?:[^\s'"\\$`;&|<>()*?[\]#~!{}]|'[^']*'|"[^"$`\\]*")+(?=\s|$)/.exec(rest)?.[0]
    if (found === undefined || found.includes("\n") || /^\w+=/.test(found)) return undefined
    words.push(found.replaceAll(/'([^']*)'|"([^"]*)"/g, "$1$2"))
    rest = rest.slice(found.length).trimStart()
  }
  return words
}

const variablesOf = ({ env = {} }: ChildProcess.CommandOptions): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, Redacted.isRedacted(value) ? Redacted.value(value) : value]]
    )
  )

const builtins: Readonly<Record<string, Command>> = {
  true: () => 0,
  false: () => 1,
  pwd: ({ cwd, write }) => {
    write("stdout", `${cwd}\n`)
    return 0
  },
  echo: ({ args, write }) => {
    write("stdout", `${args.join(" ")}\n`)
    return 0
  },
  cat: ({ args, cwd, files, write }) => {
    let exitCode = 0
    for (const path of args) {
      const bytes = files.bytes(path.startsWith("/") ? path : `${cwd}/${path}`)
      if (bytes === undefined) {
        write("stderr", `cat: ${path}: no such file\n`)
        exitCode = 1
      } else write("stdout", bytes)
    }
    return exitCode
  }
}

const refused = (tag: PlatformError.SystemErrorTag, description: string) =>
  Effect.fail(PlatformError.systemError({ _tag: tag, module: "ChildProcess", method: "spawn", description }))
