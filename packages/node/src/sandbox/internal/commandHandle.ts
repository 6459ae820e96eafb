/**
 * Represents a command that runs elsewhere as Effect's handle of a process: its output arrives in chunks, and the end of its scope stops
 * it.
 */
import type * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as PlatformError from "effect/PlatformError"
import type * as ChildProcess from "effect/process/ChildProcess"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Sink from "effect/Sink"
import * as Stream from "effect/Stream"
import { spawnError } from "./commands.ts"

type Failure = PlatformError.PlatformError

/** Receives the output of a running command. */
export interface Output {
  readonly stdout: (bytes: Uint8Array) => void
  readonly stderr: (bytes: Uint8Array) => void
}

/** A command that was started, or is about to be. */
export interface Running {
  /** Passes the output on, and returns the exit code at the end. */
  readonly follow: (output: Output) => Effect.Effect<number, Failure>
  /** Stops the processes: SIGTERM, and SIGKILL after the grace period. */
  readonly stop: (graceMs: number) => Effect.Effect<void>
  /**
   * Releases what the command leaves on its machine. Called once, when the handle's scope has ended. `hasEnded` says whether the command
   * ended by itself.
   */
  readonly forget: (hasEnded: boolean) => Effect.Effect<void>
}

const defaultGraceMs = 500

/** Makes the handle of a command. The end of the scope stops the command if it runs. */
export const commandHandle = Effect.fnUntraced(function* (
  command: ChildProcess.Command,
  running: Running
): Effect.fn.Return<ChildProcessSpawner.ChildProcessHandle, never, Scope.Scope> {
  const stdout = yield* Queue.unbounded<Uint8Array, Failure | Cause.Done>()
  const stderr = yield* Queue.unbounded<Uint8Array, Failure | Cause.Done>()
  const ended = yield* Deferred.make<number, Failure>()
  let isRunning = true
  let hasEnded = false
  const following = running
    .follow({
      stdout: (bytes) => void Queue.offerUnsafe(stdout, bytes),
      stderr: (bytes) => void Queue.offerUnsafe(stderr, bytes)
    })
    .pipe(
      Effect.onExit((exit) =>
        Effect.gen(function* () {
          isRunning = false
          hasEnded = exit._tag === "Success"
          yield* Deferred.done(ended, exit)
          yield* Queue.end(stdout)
          yield* Queue.end(stderr)
        })
      ),
      Effect.ignore,
      Effect.interruptible
    )
  const fiber = yield* Effect.forkDetach(following, { startImmediately: true })
  const graceMs = graceOf(command)
  let stopping: Effect.Effect<void> | undefined
  const stop = (change: ChildProcess.KillOptions = {}) =>
    Effect.suspend(() => {
      if (!isRunning) return Effect.void
      const grace = change.killSignal === "SIGKILL" ? 0 : (ownGrace(change) ?? graceMs)
      return (stopping ??= running.stop(grace))
    })
  yield* Effect.addFinalizer(() =>
    stop().pipe(
      Effect.andThen(Fiber.interrupt(fiber)),
      Effect.andThen(Effect.suspend(() => running.forget(hasEnded)))
    )
  )
  return ChildProcessSpawner.makeHandle({
    pid: ChildProcessSpawner.ProcessId(0),
    exitCode: Effect.map(Deferred.await(ended), ChildProcessSpawner.ExitCode),
    isRunning: Effect.sync(() => isRunning),
    kill: stop,
    stdin: Sink.drain,
    stdout: Stream.fromQueue(stdout),
    stderr: Stream.fromQueue(stderr),
    all: Stream.merge(Stream.fromQueue(stdout), Stream.fromQueue(stderr)),
    getInputFd: () => Sink.drain,
    getOutputFd: () => Stream.empty,
    unref: Effect.succeed(Effect.void)
  })
})

const graceOf = (command: ChildProcess.Command): number =>
  command._tag === "PipedCommand"
    ? graceOf(command.right)
    : command.options.killSignal === "SIGKILL"
      ? 0
      : (ownGrace(command.options) ?? defaultGraceMs)

const ownGrace = ({ forceKillAfter }: ChildProcess.KillOptions): number | undefined =>
  forceKillAfter === undefined ? undefined : Duration.toMillis(forceKillAfter)

/** Fails for a command with standard input, which commands that run elsewhere do not get. */
export const withoutInput = (command: ChildProcess.Command): Effect.Effect<void, Failure> => {
  if (command._tag === "PipedCommand") return withoutInput(command.left)
  const { stdin } = command.options
  const stream = typeof stdin === "object" && "stream" in stdin ? stdin.stream : stdin
  return Stream.isStream(stream)
    ? Effect.fail(spawnError("BadResource", "The commands of this sandbox have no standard input"))
    : Effect.void
}
