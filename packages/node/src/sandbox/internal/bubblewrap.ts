/**
 * Turns a command into one that starts bubblewrap, which starts the command behind its wall.
 *
 * The arguments reach bubblewrap through a pipe: those of a process are visible to every user, and a variable such as `LD_PRELOAD` in its
 * environment would be obeyed outside of the wall. A second pipe reports whether bubblewrap started the command: a failure before that has
 * the exit code 1, which a command could have, too.
 */
import { relative, resolve } from "node:path"
import { SandboxError } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as ChildProcess from "effect/process/ChildProcess"
import * as Stream from "effect/Stream"
import { type Placed, spawnError } from "./commands.ts"
import { ConfinedView, ViewChanged } from "./confinedView.ts"
import { findBubblewrap, missingBubblewrap, problemOfView, wallArguments } from "./findBubblewrap.ts"
import { protectedNames } from "./hiddenPlaces.ts"
import type { Opened, Starting } from "./openMachine.ts"
import type { BubblewrapSandboxOptions } from "./options.ts"
import { withCause } from "./withCause.ts"

interface Wall {
  readonly program: string
  readonly view: ConfinedView
  readonly network: boolean
}

/** Finds out whether commands in a place can be confined, and returns how they are started. */
export const startBehindWall = Effect.fnUntraced(function* (
  { hide = [], network = false, protect = protectedNames }: BubblewrapSandboxOptions,
  { rules, workdir }: Opened
): Effect.fn.Return<Starting, SandboxError.SandboxUnavailable> {
  const roots = rules.write ?? []
  if (!roots.every(isConfinable))
    return yield* unavailable("it cannot make a directory of the system writable: name another one")
  const program = findBubblewrap([process.cwd(), ...roots])
  if (program === undefined) return yield* unavailable(missingBubblewrap)
  const view = yield* Effect.promise(() => ConfinedView.make({ workdir, rules, hide, protect }))
  const problem = yield* Effect.promise(async () => problemOfView(program, network, await view.arguments()))
  if (problem !== undefined) return yield* unavailable(problem)
  return { isWalled: true, confirmStart, prepare: (placed) => prepare({ program, view, network }, placed) }
})

const unavailable = (problem: string) =>
  Effect.fail(SandboxError.SandboxUnavailable.make({ backend: "bubblewrap", problem, retryable: false }))

/** Whether a directory can be writable in a confined sandbox: not the root, nor one of the kernel. */
const isConfinable = (path: string): boolean =>
  resolve(path) !== "/" &&
  ["/proc", "/sys", "/dev"].every((kernel) => relative(kernel, resolve(path)).startsWith(".."))

const prepare = Effect.fnUntraced(function* (
  { network, program, view }: Wall,
  { command, cwd, env }: Placed
) {
  const mounts = yield* Effect.tryPromise({
    try: () => view.arguments(),
    catch: (cause) => {
      if (!(cause instanceof ViewChanged)) throw cause
      return spawnError("NotFound", "A directory of the sandbox no longer exists, or was replaced")
    }
  })
  const variables = Object.entries(env).flatMap(([name, value]) => ["--setenv", name, value])
  const args = [...wallArguments(network), ...mounts, ...variables, "--chdir", cwd]
  const { additionalFds = {}, ...options } = command.options
  const pipes = pipesOf(command)
  return ChildProcess.make(
    program,
    [
      "--args",
      String(pipes.args),
      "--json-status-fd",
      String(pipes.status),
      "--",
      ...shellOf(command.command),
      command.command,
      ...command.args
    ],
    {
      ...options,
      cwd: "/",
      env: {},
      extendEnv: false,
      additionalFds: {
        ...additionalFds,
        [`fd${pipes.args}`]: {
          type: "input",
          stream: Stream.make(new TextEncoder().encode(args.join("\0") + "\0"))
        },
        [`fd${pipes.status}`]: { type: "output" }
      }
    }
  )
})

/** A shell that replaces itself by the program, so that a missing program has the exit code 127, as in every shell. */
const shellOf = (program: string): ReadonlyArray<string> =>
  program === "sh" ? [] : ["/bin/sh", "-c", 'exec "$@"', "sh"]

/** The pipes of bubblewrap itself, after those of the command. bubblewrap closes them before it starts the command. */
const pipesOf = ({
  options
}: ChildProcess.StandardCommand): { readonly args: number; readonly status: number } => {
  const names = Object.keys(options.additionalFds ?? {})
  const last = Math.max(2, ...names.flatMap((name) => ChildProcess.parseFdName(name) ?? []))
  return { args: last + 1, status: last + 2 }
}

/** bubblewrap writes the exit code of a command into its status, and writes none if it failed before it had started one. */
const confirmStart: NonNullable<Starting["confirmStart"]> = (handle, command) =>
  handle.getOutputFd(pipesOf(command).status).pipe(
    Stream.decodeText(),
    Stream.mkString,
    Effect.filterOrFail(
      (status) => status.includes('"exit-code"'),
      () =>
        withCause(
          SandboxError.CommandFailed.make({
            backend: "bubblewrap",
            problem:
              "bubblewrap could not set up its wall: look whether the directories of the sandbox can be mounted, and whether this machine still allows user namespaces",
            notStarted: true
          })
        )
    ),
    Effect.asVoid
  )
