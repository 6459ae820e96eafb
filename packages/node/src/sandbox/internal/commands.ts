/**
 * Changes each command of a pipeline before it is started.
 */
import type { SandboxError } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as PlatformError from "effect/PlatformError"
import * as ChildProcess from "effect/process/ChildProcess"
import * as Redacted from "effect/Redacted"

/** A command with its place and its variables. */
export interface Placed {
  readonly command: ChildProcess.StandardCommand
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

/** Changes the commands of a pipeline. */
export const mapCommands = <E>(
  command: ChildProcess.Command,
  change: (command: ChildProcess.StandardCommand) => Effect.Effect<ChildProcess.Command, E>
): Effect.Effect<ChildProcess.Command, E> =>
  command._tag === "StandardCommand"
    ? change(withoutShell(command))
    : Effect.zipWith(mapCommands(command.left, change), mapCommands(command.right, change), (left, right) =>
        ChildProcess.pipeTo(left, right, command.options)
      )

/** With a program in front of it, a command for a shell needs the shell's name. */
const withoutShell = (command: ChildProcess.StandardCommand): ChildProcess.StandardCommand => {
  const { shell, ...options } = command.options
  if (shell === undefined || shell === false || command.args.length > 0 || process.platform === "win32")
    return command
  return ChildProcess.make(shell === true ? "sh" : shell, ["-c", command.command], options)
}

/** The variables of a command: those of the sandbox and its own. One that is `undefined` is left out. */
export const variablesOf = (
  base: Readonly<Record<string, string>>,
  { env = {} }: ChildProcess.CommandOptions
): Readonly<Record<string, string>> => {
  const result: Record<string, string> = { ...base }
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined) delete result[name]
    else result[name] = Redacted.isRedacted(value) ? Redacted.value(value) : value
  }
  return result
}

/** The error of a command that does not start. It names nothing of this machine. A cause is an error of the sandbox itself. */
export const spawnError = (
  tag: PlatformError.SystemErrorTag,
  description: string,
  cause?: SandboxError.SandboxLost
): PlatformError.PlatformError =>
  PlatformError.systemError({
    _tag: tag,
    module: "ChildProcess",
    method: "spawn",
    description,
    ...(cause === undefined ? {} : { cause })
  })
