/**
 * Commands as text for a POSIX shell, for sandboxes whose processes another program starts.
 */
import * as Effect from "effect/Effect"
import type * as PlatformError from "effect/PlatformError"
import type * as ChildProcess from "effect/process/ChildProcess"
import * as Redacted from "effect/Redacted"
import { mapCommands, spawnError, variablesOf } from "./commands.ts"

/** The directory and the variables with which the commands of a sandbox run. */
export interface Surroundings {
  /** The directory of a command, from the one that it names. */
  readonly directoryOf: (cwd: string | undefined) => Effect.Effect<string, PlatformError.PlatformError>
  /** The variables of every command. */
  readonly env: Readonly<Record<string, string>>
}

/** A text as one word for a shell. */
export const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/**
 * The text that runs a command in a shell of its own. The shell replaces itself by the command (`exec`), so that a signal reaches the
 * command. A pipeline runs as a pipeline of the shell. Fails for arguments and variables that contain NUL or lone surrogates, and for
 * pipelines of other streams than standard output.
 */
export const textOf = (
  command: ChildProcess.Command,
  around: Surroundings
): Effect.Effect<string, PlatformError.PlatformError> =>
  Effect.flatMap(mapCommands(command, Effect.succeed), (each) => render(each, around))

const render = (
  command: ChildProcess.Command,
  around: Surroundings
): Effect.Effect<string, PlatformError.PlatformError> =>
  command._tag === "StandardCommand"
    ? renderOne(command, around)
    : Effect.gen(function* () {
        const { from = "stdout", to = "stdin" } = command.options
        if (from !== "stdout" || to !== "stdin")
          return yield* Effect.fail(spawnError("BadResource", "This sandbox pipes standard output alone"))
        const left = yield* render(command.left, around)
        const right = yield* render(command.right, around)
        return `(\n${left}\n) | (\n${right}\n)`
      })

const renderOne = Effect.fnUntraced(function* (
  { args, command, options }: ChildProcess.StandardCommand,
  { directoryOf, env }: Surroundings
): Effect.fn.Return<string, PlatformError.PlatformError> {
  const cwd = yield* directoryOf(options.cwd)
  const variables = Object.entries(variablesOf(env, options))
  const words = [command, ...args].map((word) => (Redacted.isRedacted(word) ? Redacted.value(word) : word))
  if ([...words, ...variables.flat()].some((text) => text.includes("\0") || !text.isWellFormed()))
    return yield* Effect.fail(
      spawnError("BadResource", "The arguments and variables of a command are text without NUL")
    )
  // `export` keeps values out of the list of processes. Names that a shell does not know go through `env`.
  const named = variables.filter(([name]) => /^[A-Za-z_]\w*$/.test(name))
  const others = variables.filter(([name]) => !/^[A-Za-z_]\w*$/.test(name) && !/[=\0]/.test(name))
  const through = others.length === 0 ? [] : ["env", ...others.map(([name, value]) => `${name}=${value}`)]
  return [
    `cd ${quote(cwd)} || exit 126`,
    ...named.map(([name, value]) => `export ${name}=${quote(value)}`),
    `exec ${[...through, ...words].map(quote).join(" ")}`
  ].join("\n")
})
