/**
 * The tools with which a model runs commands: `run_shell`, `shell_output` and `shell_stop`.
 *
 * A command runs in the run's sandbox. The sandbox decides what the command can do; the rules decide what a person is asked. In a sandbox
 * that confines commands (`isolated`), those that only read run at once. In any other sandbox, each command asks, and the request says that
 * nothing confines it.
 *
 * @since 0.2.0
 */
import { type Sandbox, Tool } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { backgroundOf } from "./internal/shell/BackgroundCommands.ts"
import { previewOf, riskOf, type ShellCall } from "./internal/shell/commandText.ts"
import { judgeCommand } from "./internal/shell/judgeCommand.ts"
import { reconcileCommand, runCommand } from "./internal/shell/runCommand.ts"
import { type Settings, settingsOf, type ShellOptions } from "./internal/shell/shellOptions.ts"
import { shownOutput } from "./internal/shell/shownOutput.ts"

export type { ShellOptions } from "./internal/shell/shellOptions.ts"

/**
 * Makes the tools for commands, for an agent of a program with the option `sandbox`.
 *
 * **Details**
 *
 * `run_shell` runs a line of a shell without input, streams its output, and returns the exit code, stdout and stderr. A code other than 0
 * does not fail the call. A command that exceeds its timeout is stopped, and its result has the output until then. With `background: true`,
 * the command goes on after the call; `shell_output` reads its output, `shell_stop` stops it. The command is stopped when the run is
 * cancelled or the runtime is closed.
 *
 * An approval request shows the exact command, the sandbox's target and the directory. If the sandbox, its target or its isolation has
 * changed when the approved command would start, it asks again.
 *
 * After a crash, a sandbox with the capability `sessions` returns the command's result. In any other sandbox, a command that only reads
 * runs again, and any other command is in doubt.
 *
 * **Gotchas**
 *
 * Rules are a hint: a shell has too many ways to write a command for a list to be complete. Only a sandbox bounds what a command can do;
 * see `docs/architecture/tool-safety.md`.
 *
 * **Example** (Confined commands that run without approval)
 *
 * ```ts run
 * import { agent, createFermata, localSandbox, shellTools } from "@fermata/node"
 * import { ScriptedModel } from "@fermata/node/testing"
 *
 * const tools = shellTools({ confined: "run", rules: [{ decision: "deny", argv: ["git", "push", "**"] }] })
 * const model = ScriptedModel.make(["done"]).client
 * await using fermata = await createFermata({
 *   agents: [agent("developer", { tools })],
 *   model,
 *   sandbox: localSandbox(),
 *   store: false
 * })
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an unknown option or an invalid value. A call fails with `CommandRefused`, `TooManyCommands`, `CommandLost` or
 * an error of the sandbox.
 *
 * @category constructors
 * @since 0.2.0
 */
export const shellTools = (options: ShellOptions = {}): ReadonlyArray<Tool.Tool> => {
  const settings = settingsOf("shellTools", options)
  return [runShell(settings), shellOutput(settings), shellStop(settings)]
}

/** How many seconds the call's timeout exceeds the command's, so that the sandbox stops the command first. */
const beyondSeconds = 30

const runShell = (settings: Settings): Tool.Tool => {
  const { maxTimeoutSeconds, shell, timeoutSeconds } = settings
  const parameters = Schema.Struct({
    command: Schema.String.check(Schema.isPattern(/\S/)).annotate({
      description: `The line for ${shell}, exactly as it is to run. It gets no input, so use flags that answer questions`
    }),
    cwd: Schema.optionalKey(
      Schema.NonEmptyString.annotate({
        description: "The directory in which the command starts, relative to the working directory"
      })
    ),
    timeout: Schema.optionalKey(
      Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: maxTimeoutSeconds })).annotate({
        description: `After how many seconds the command is stopped, up to ${maxTimeoutSeconds}. Default: ${timeoutSeconds}`
      })
    ),
    background: Schema.optionalKey(
      Schema.Boolean.annotate({
        description:
          "Whether the command goes on in the background, such as a server. The result is its id for shell_output and shell_stop"
      })
    )
  })
  const callOf = (args: typeof parameters.Type): ShellCall => ({
    command: args.command,
    cwd: args.cwd ?? settings.cwd,
    timeoutSeconds: args.timeout ?? timeoutSeconds,
    background: args.background ?? false
  })
  return Tool.make("run_shell", {
    description: `Runs a command with ${shell} in the workspace and returns its exit code, stdout and stderr.
Each call starts in the working directory with a fresh environment: cd and variables do not carry over. A long output is shown without its \
middle. A command that does not end by itself belongs in the background.`,
    parameters,
    sandbox: true,
    safety: "sideEffecting",
    timeout: `${maxTimeoutSeconds + beyondSeconds} seconds`,
    maxResultLength: settings.maxResultLength,
    // The body of a refused command fails before it runs anything.
    needsApproval: (args, context) =>
      Effect.gen(function* () {
        const { decision } = yield* judgeCommand(settings, yield* context.sandbox, callOf(args))
        return decision === "ask"
      }),
    facts: (args, context) =>
      Effect.map(Effect.option(context.sandbox), (opened) =>
        opened._tag === "Some" ? placeOf(callOf(args), opened.value) : { target: "unknown" }
      ),
    preview: (args, context) =>
      Effect.map(Effect.option(context.sandbox), (opened) =>
        previewOf(callOf(args), opened._tag === "Some" ? opened.value : undefined)
      ),
    risk: (args, context) =>
      Effect.gen(function* () {
        const sandbox = yield* context.sandbox
        return riskOf(yield* judgeCommand(settings, sandbox, callOf(args)), sandbox)
      }),
    reconcile: (callId, args, context) =>
      Effect.flatMap(context.sandbox, (sandbox) => reconcileCommand(settings, callOf(args), callId, sandbox)),
    handler: (args, context) => runCommand(settings, callOf(args), context)
  })
}

/** The facts of a call, on which an approval depends besides the command: where it runs, and whether it is confined. */
const placeOf = ({ cwd }: ShellCall, { capabilities, target, workdir }: Sandbox.Shape) => ({
  target,
  directory: cwd === undefined || cwd.startsWith("/") ? (cwd ?? workdir) : `${workdir}/${cwd}`,
  isolated: capabilities.has("isolated")
})

const id = Schema.NonEmptyString.annotate({
  description: "The id of the command, as run_shell has returned it"
})

/** The longest time that a call waits for output, in seconds. */
const longestWait = 60

const shellOutput = ({ maxOutputBytes, maxResultLength }: Settings): Tool.Tool =>
  Tool.make("shell_output", {
    description:
      "Returns how a command in the background stands, and its output: stdout and stderr as they came.",
    parameters: Schema.Struct({
      id,
      since: Schema.optionalKey(
        Schema.Natural.annotate({
          description: "Where to read from, in characters, as an earlier result says. Default: the last part"
        })
      ),
      wait: Schema.optionalKey(
        Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: longestWait })).annotate({
          description: `How many seconds to wait for output after "since", or for the end of the command, up to ${longestWait}. Default: 0`
        })
      )
    }),
    sandbox: true,
    safety: "readOnly",
    timeout: `${longestWait + beyondSeconds} seconds`,
    maxResultLength,
    handler: ({ id, since, wait = 0 }, { runScope, sandbox }) =>
      Effect.gen(function* () {
        const command = yield* backgroundOf(sandbox).find(id, runScope, maxOutputBytes)
        const { log } = command
        const beyond = Effect.callback<void>((resume) => {
          const stop = log.onBeyond(since ?? log.end, () => resume(Effect.void))
          return Effect.sync(stop)
        })
        if (wait > 0) yield* Effect.timeoutOption(beyond, `${wait} seconds`)
        return shownOutput(command, since, maxResultLength)
      })
  })

const shellStop = ({ maxOutputBytes, maxResultLength }: Settings): Tool.Tool =>
  Tool.make("shell_stop", {
    description:
      "Stops a command in the background with everything that it has started, and returns its last output.",
    parameters: Schema.Struct({ id }),
    sandbox: true,
    // It stops nothing but what run_shell has started.
    needsApproval: false,
    safety: "sideEffecting",
    idempotent: true,
    maxResultLength,
    handler: ({ id }, { runScope, sandbox }) =>
      Effect.gen(function* () {
        const commands = backgroundOf(sandbox)
        const command = yield* commands.find(id, runScope, maxOutputBytes)
        yield* commands.stop(command)
        return shownOutput(command, undefined, maxResultLength)
      })
  })
