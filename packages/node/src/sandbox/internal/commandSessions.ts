/**
 * Commands that go on while no process is attached: each is a session in a directory of the sandbox's machine, which `sessionScripts.ts`
 * describes. A spawner over them, and the search for the command of a session.
 */
import { createHash, randomUUID } from "node:crypto"
import { makeSandbox, type Sandbox, SandboxError } from "@fermata/sdk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as PlatformError from "effect/PlatformError"
import type * as ChildProcess from "effect/process/ChildProcess"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import { commandHandle, type Output, withoutInput } from "./commandHandle.ts"
import { FrameReader } from "./FrameReader.ts"
import * as Scripts from "./sessionScripts.ts"
import { HostFailed, type ShellHost } from "./shellHost.ts"
import { type Surroundings, textOf } from "./shellText.ts"
import { markerName } from "./stopScript.ts"
import { withCause } from "./withCause.ts"

/** The sessions of a sandbox. */
export interface SessionsOptions {
  readonly backend: string
  readonly host: ShellHost
  /** The directory of the sessions, on the machine of the sandbox. */
  readonly directory: string
  readonly surroundings: Surroundings
  /** Starts the command of a session that was made; default: detached, by the script that makes it. */
  readonly start?: (session: {
    readonly id: string
    readonly title: string
  }) => Effect.Effect<void, HostFailed>
}

type Spawner = ChildProcessSpawner.ChildProcessSpawner["Service"]

/** The pauses in milliseconds before each attempt to read a command's output; after the last one, the command fails. */
const retryDelays = [0, 250, 1000, 4000]

/** Runs and finds the commands of a sandbox as sessions: its spawner, its `exec` and its `findCommand`. */
export class CommandSessions {
  private readonly options: SessionsOptions

  constructor(options: SessionsOptions) {
    this.options = options
  }

  /** Starts commands whose sessions are removed when they end. */
  readonly spawner: Spawner = ChildProcessSpawner.make((command) => this.spawn(command, undefined))

  /** Runs a command. One with the session of an earlier command is not started again. */
  readonly exec =
    (parts: Parameters<typeof makeSandbox>[0]): Sandbox.Shape["exec"] =>
    (command, options) => {
      const session = options?.session
      const spawner = ChildProcessSpawner.make((each) => this.spawn(each, session))
      return makeSandbox({ ...parts, spawner }).exec(command, options)
    }

  /** Finds the command of a session: whether it runs, or its result. */
  readonly findCommand =
    (parts: Parameters<typeof makeSandbox>[0]): Sandbox.Shape["findCommand"] =>
    (session) =>
      Effect.gen({ self: this }, function* () {
        const chunks: Array<readonly [keyof Output, Uint8Array]> = []
        const frames = new FrameReader({
          stdout: (bytes) => void chunks.push(["stdout", bytes]),
          stderr: (bytes) => void chunks.push(["stderr", bytes])
        })
        const { host } = this.options
        const args = [this.directoryOf(idOf(session)), "0", "0", "once"]
        yield* Effect.mapError(
          host.follow(Scripts.follow, { args, onOutput: (bytes) => frames.add(bytes) }),
          (error) => this.failed(error)
        )
        const end = frames.end
        if (end?.kind === "unknown" || end === undefined) return { _tag: "unknown" } as const
        if (end.kind === "running") return { _tag: "running" } as const
        if (end.kind !== "ended") return yield* Effect.fail(this.failed(keeperGone))
        // The result is cut as that of a command that has just ended.
        const spawner = ChildProcessSpawner.make((command) =>
          commandHandle(command, {
            follow: (output) =>
              Effect.sync(() => {
                for (const [stream, bytes] of chunks) output[stream](bytes)
                return end.exitCode
              }),
            stop: () => Effect.void,
            forget: () => Effect.void
          })
        )
        const result = yield* makeSandbox({ ...parts, spawner }).exec("")
        return { _tag: "ended", result: { ...result, durationMs: 0 } } as const
      })

  private directoryOf(id: string): string {
    return `${this.options.directory}/${id}`
  }

  private readonly spawn = Effect.fnUntraced(
    { self: this as CommandSessions },
    function* (this: CommandSessions, command: ChildProcess.Command, session: string | undefined) {
      const { host, start, surroundings } = this.options
      yield* withoutInput(command)
      const id = session === undefined ? `c-${randomUUID()}` : idOf(session)
      const directory = this.directoryOf(id)
      const env = { ...surroundings.env, [markerName]: id }
      const text = Buffer.from(yield* textOf(command, { ...surroundings, env }))
      const isForgotten = session === undefined
      if (start !== undefined)
        yield* Effect.andThen(this.make(directory, text), start({ id, title: titleOf(command) })).pipe(
          Effect.mapError((error) => this.refused(error, error.notStarted))
        )
      const begun = yield* Deferred.make<void, PlatformError.PlatformError>()
      if (start !== undefined) yield* Deferred.succeed(begun, undefined)
      const onBegun = () => Deferred.doneUnsafe(begun, Effect.void)
      const input = start === undefined ? text : undefined
      const handle = yield* commandHandle(command, {
        follow: (output) =>
          this.follow({ directory, output, input, onBegun, isForgotten }).pipe(
            // A command whose start is unknown has to be stopped as one that was started.
            Effect.onExit((exit) =>
              exit._tag === "Failure" ? Deferred.failCause(begun, exit.cause) : Effect.sync(onBegun)
            )
          ),
        stop: (graceMs) =>
          Effect.ignore(host.run(Scripts.stop, { args: [directory, id, String(Math.ceil(graceMs / 100))] })),
        forget: (hasEnded) =>
          isForgotten && !hasEnded
            ? Effect.ignore(host.run(Scripts.forget, { args: [directory] }))
            : Effect.void
      })
      yield* Deferred.await(begun)
      return handle
    },
    Effect.uninterruptible
  )

  private make(directory: string, input: Uint8Array): Effect.Effect<void, HostFailed> {
    return Effect.flatMap(
      this.options.host.run(Scripts.begin, { args: [directory, String(input.length)], input }),
      ({ exitCode }) =>
        exitCode === 0
          ? Effect.void
          : Effect.fail(new HostFailed("the directory of its session cannot be written", true))
    )
  }

  /** Passes the output of a session on until its command has ended, over as many connections as it takes. Starts it with `input`. */
  private follow(session: {
    readonly directory: string
    readonly output: Output
    readonly input: Uint8Array | undefined
    readonly onBegun: () => void
    readonly isForgotten: boolean
  }): Effect.Effect<number, PlatformError.PlatformError> {
    const { directory, input, isForgotten, onBegun, output } = session
    return Effect.gen({ self: this }, function* () {
      const { host } = this.options
      let [stdout, stderr] = [0, 0]
      let failure = new HostFailed("its output could not be read", false)
      let hasBegun = input === undefined
      // A script whose connection was lost may have started the command, even if later attempts fail.
      let mayHaveBegun = hasBegun
      for (let attempt = 0; attempt < retryDelays.length; attempt += 1) {
        yield* pause(retryDelays[attempt]!)
        const frames = new FrameReader({
          stdout: (bytes) => {
            stdout += bytes.length
            output.stdout(bytes)
          },
          stderr: (bytes) => {
            stderr += bytes.length
            output.stderr(bytes)
          }
        })
        frames.onBegun = () => {
          hasBegun = true
          onBegun()
        }
        const exit = yield* Effect.result(
          host.follow(hasBegun ? Scripts.follow : Scripts.launch, {
            args: [
              directory,
              String(stdout),
              String(stderr),
              "",
              isForgotten ? "forget" : "",
              String(input?.length)
            ],
            ...(hasBegun || input === undefined ? {} : { input }),
            onOutput: (bytes) => {
              attempt = 0
              frames.add(bytes)
            }
          })
        )
        const { end } = frames
        if (end?.kind === "ended") {
          for (const stream of ["stdout", "stderr"] as const)
            if (end.missing[stream] > 0)
              output[stream](Buffer.from(`\n[${end.missing[stream]} more bytes were not stored]\n`))
          return end.exitCode
        }
        if (end !== undefined) return yield* Effect.fail(this.refused(keeperGone, false))
        if (exit._tag === "Failure") {
          failure = exit.failure
          mayHaveBegun ||= !failure.notStarted
        } else if (!hasBegun) failure = new HostFailed("the directory of its session cannot be written", true)
        // A login that was refused is refused again.
        if (!failure.retryable) break
      }
      return yield* Effect.fail(this.refused(failure, !hasBegun && !mayHaveBegun))
    })
  }

  private failed(error: HostFailed, notStarted = false): SandboxError.CommandFailed {
    return SandboxError.CommandFailed.make({
      backend: this.options.backend,
      problem: error.problem,
      ...(notStarted ? { notStarted: true as const } : {})
    })
  }

  private refused(error: HostFailed, notStarted: boolean): PlatformError.PlatformError {
    return withCause(this.failed(error, notStarted))
  }
}

const keeperGone = new HostFailed(
  "its machine was restarted, or its processes were ended from outside",
  false
)

/** A session's directory: its id may contain any characters. */
const idOf = (session: string): string =>
  `s-${createHash("sha256").update(session).digest("hex").slice(0, 40)}`

/** A command for a person: one line, without control characters. */
const titleOf = (command: ChildProcess.Command): string => {
  if (command._tag === "PipedCommand") return `${titleOf(command.left)} | ${titleOf(command.right)}`
  const args = command.args.map(String)
  const isLine = command.command === "sh" && args.length === 2 && args[0] === "-c"
  const text = isLine ? args[1]! : [String(command.command), ...args].join(" ")
  return text.replaceAll(/\p{Cc}/gu, " ").slice(0, 500)
}

const pause = (ms: number): Effect.Effect<void> =>
  ms === 0
    ? Effect.void
    : Effect.callback((resume) => {
        const timer = setTimeout(() => resume(Effect.void), ms)
        return Effect.sync(() => clearTimeout(timer))
      })
