/**
 * Starts the commands of a sandbox on this machine: in its directories, with its variables, and with a stop that reaches every process that
 * they started.
 */
import { randomUUID } from "node:crypto"
import * as NodeChildProcessSpawner from "@effect/platform-node-shared/NodeChildProcessSpawner"
import * as NodeFileSystem from "@effect/platform-node-shared/NodeFileSystem"
import * as NodePath from "@effect/platform-node-shared/NodePath"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as PlatformError from "effect/PlatformError"
import type * as ChildProcess from "effect/process/ChildProcess"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { mapCommands, type Placed, spawnError, variablesOf } from "./commands.ts"
import { nativeTimeout, pumpOutput } from "./outputPump.ts"
import { markerName, markerValue, ProcessFamily, type Stop } from "./processFamily.ts"

/** The options of the spawner of a sandbox: where and how it starts commands. */
export interface SpawnerOptions {
  readonly env: Readonly<Record<string, string>>
  /** The directory of a command, from the one that it names. */
  readonly directoryOf: (cwd: string | undefined) => Effect.Effect<string, PlatformError.PlatformError>
  /** Returns the command that is started in place of the given one, such as one behind a wall. */
  readonly prepare: (placed: Placed) => Effect.Effect<ChildProcess.Command, PlatformError.PlatformError>
  /**
   * Checks, after the process has exited, whether it started the command, and fails if it did not. In a pipeline, only the last command is
   * checked. Default: the process is the command itself.
   */
  readonly confirmStart?: (
    handle: ChildProcessSpawner.ChildProcessHandle,
    command: ChildProcess.StandardCommand
  ) => Effect.Effect<void, PlatformError.PlatformError>
  /** Whether the process that is started is a wall around the command, which ends with it. */
  readonly isWalled: boolean
}

type Spawner = ChildProcessSpawner.ChildProcessSpawner["Service"]

const defaultGraceMs = 500

/** The longest wait in milliseconds for the end of a process that was killed. */
const exitMs = 1000

const nodeSpawner = NodeChildProcessSpawner.layer.pipe(
  Layer.provide(Layer.merge(NodeFileSystem.layer, NodePath.layer))
)

/** Makes the spawner of a sandbox. The end of the scope stops every process that it has started. */
export const makeSpawner = Effect.fnUntraced(function* (
  options: SpawnerOptions
): Effect.fn.Return<Spawner, never, Scope.Scope> {
  const inner = yield* Effect.provide(ChildProcessSpawner.ChildProcessSpawner, nodeSpawner)
  const families = new Set<ProcessFamily>()
  let isReleased = false
  yield* Effect.addFinalizer(() =>
    Effect.promise(() => {
      isReleased = true
      return Promise.all(
        [...families].map((family) => family.stop({ signal: "SIGTERM", graceMs: defaultGraceMs }))
      )
    })
  )
  const spawn = Effect.fnUntraced(function* (
    command: ChildProcess.Command
  ): Effect.fn.Return<ChildProcessSpawner.ChildProcessHandle, PlatformError.PlatformError, Scope.Scope> {
    const id = randomUUID()
    const placed = yield* mapCommands(command, (each) => place(options, id, each))
    if (isReleased) return yield* Effect.fail(spawnError("BadResource", "The sandbox was released"))
    const started = yield* inner.spawn(placed)
    const handle = ChildProcessSpawner.makeHandle({
      ...started,
      exitCode: yield* confirmedExit(options, command, started)
    })
    const family = new ProcessFamily({ id, leader: handle.pid, isWalled: options.isWalled })
    families.add(family)
    const ended = Effect.andThen(
      Effect.ignore(handle.exitCode),
      Effect.sync(() => family.leaderEnded())
    )
    const watching = yield* Effect.forkDetach(Effect.interruptible(ended), { startImmediately: true })
    const stdout = yield* pumpOutput(handle.stdout)
    const stderr = yield* pumpOutput(handle.stderr)
    const defaults = stopOf(command)
    const stop = (change: ChildProcess.KillOptions = {}) =>
      Effect.promise(() => family.stop({ ...defaults, ...ownStop(change) })).pipe(
        Effect.andThen(nativeTimeout(Fiber.await(watching), exitMs)),
        Effect.asVoid
      )
    yield* Effect.addFinalizer(() =>
      stop().pipe(
        Effect.andThen(Fiber.interrupt(watching)),
        Effect.andThen(
          Effect.forEach([stdout, stderr], ({ finish }) => finish, {
            concurrency: "unbounded",
            discard: true
          })
        ),
        // The finalizer of the inner spawner has nothing left to stop, and would wait for the processes that other ones have to reap.
        Effect.andThen(Effect.ignore(handle.unref)),
        Effect.andThen(Effect.sync(() => families.delete(family)))
      )
    )
    return ChildProcessSpawner.makeHandle({
      ...handle,
      stdout: stdout.stream,
      stderr: stderr.stream,
      all: Stream.merge(stdout.stream, stderr.stream),
      kill: stop
    })
  })
  return ChildProcessSpawner.make((command) => Effect.uninterruptible(spawn(command)))
})

/** The exit code of a process, which fails if the process did not start its command. */
const confirmedExit = (
  { confirmStart }: SpawnerOptions,
  command: ChildProcess.Command,
  handle: ChildProcessSpawner.ChildProcessHandle
) =>
  confirmStart === undefined
    ? Effect.succeed(handle.exitCode)
    : Effect.cached(Effect.tap(handle.exitCode, () => confirmStart(handle, lastOf(command))))

const lastOf = (command: ChildProcess.Command): ChildProcess.StandardCommand =>
  command._tag === "PipedCommand" ? lastOf(command.right) : command

const place = Effect.fnUntraced(function* (
  { directoryOf, env, prepare }: SpawnerOptions,
  id: string,
  command: ChildProcess.StandardCommand
): Effect.fn.Return<ChildProcess.Command, PlatformError.PlatformError> {
  const cwd = yield* directoryOf(command.options.cwd)
  const variables = { ...variablesOf(env, command.options), [markerName]: markerValue(id) }
  return yield* prepare({ command, cwd, env: variables })
})

/** How a command says that it is stopped. A pipeline is stopped as its last command. */
const stopOf = (command: ChildProcess.Command): Stop =>
  command._tag === "PipedCommand"
    ? stopOf(command.right)
    : { signal: "SIGTERM", graceMs: defaultGraceMs, ...ownStop(command.options) }

const ownStop = ({ forceKillAfter, killSignal }: ChildProcess.KillOptions): Partial<Stop> => ({
  ...(killSignal === undefined ? {} : { signal: killSignal }),
  ...(forceKillAfter === undefined ? {} : { graceMs: Duration.toMillis(forceKillAfter) })
})
