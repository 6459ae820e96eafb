/**
 * Makes of a command the one that starts bubblewrap, which starts the command behind its wall.
 *
 * The arguments reach bubblewrap through a pipe: those of a process are visible to every user, and a variable such as `LD_PRELOAD` in its
 * environment would be obeyed outside of the wall.
 */
import * as Effect from "effect/Effect"
import * as ChildProcess from "effect/process/ChildProcess"
import * as Stream from "effect/Stream"
import { type Placed, spawnError } from "./commands.ts"
import { type ConfinedView, ViewChanged } from "./confinedView.ts"
import { wallArguments } from "./findBubblewrap.ts"
import type { Starting } from "./openMachine.ts"

/** The wall of a sandbox. */
export interface Wall {
  readonly program: string
  readonly view: ConfinedView
  readonly network: boolean
}

/** Starts commands behind the wall. */
export const behindWall = (wall: Wall): Starting => ({
  isWalled: true,
  prepare: (placed) => prepare(wall, placed)
})

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
  const pipe = freeDescriptor(Object.keys(additionalFds))
  return ChildProcess.make(
    program,
    ["--args", String(pipe), "--", ...shellOf(command.command), command.command, ...command.args],
    {
      ...options,
      cwd: "/",
      env: {},
      extendEnv: false,
      additionalFds: {
        ...additionalFds,
        [`fd${pipe}`]: {
          type: "input",
          stream: Stream.make(new TextEncoder().encode(args.join("\0") + "\0"))
        }
      }
    }
  )
})

/** A shell that becomes the program, because it says of a missing one what every shell does: exit code 127. */
const shellOf = (program: string): ReadonlyArray<string> =>
  program === "sh" ? [] : ["/bin/sh", "-c", 'exec "$@"', "sh"]

const freeDescriptor = (names: ReadonlyArray<string>): number =>
  Math.max(2, ...names.flatMap((name) => ChildProcess.parseFdName(name) ?? [])) + 1
