/**
 * Runs the command of a call: to its end, or in the background. Reconciles a call whose process has died.
 */
import type { Sandbox, Tool, ToolContext } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { type BackgroundCommand, backgroundOf } from "./BackgroundCommands.ts"
import { endText, resultOf, type ShellCall, startedText } from "./commandText.ts"
import { judgeCommand } from "./judgeCommand.ts"
import { CommandRefused } from "./shellErrors.ts"
import type { Settings } from "./shellOptions.ts"
import { shownOutput } from "./shownOutput.ts"

type Context = ToolContext.ToolContext & { readonly sandbox: Sandbox.Shape; readonly runScope: Scope.Scope }

/** Runs the command of a call. */
export const runCommand = Effect.fnUntraced(function* (
  settings: Settings,
  call: ShellCall,
  context: Context
) {
  const { callId, progress, sandbox } = context
  const judgement = yield* judgeCommand(settings, sandbox, call)
  if (judgement.decision === "deny") return yield* new CommandRefused({ reason: judgement.reason })
  progress(startedText(call))
  if (call.background) return yield* startInBackground(settings, call, context)
  const result = yield* execute(settings, call, sandbox, callId, context.output)
  progress(endText(result))
  return resultOf(result)
})

const execute = (
  { maxOutputBytes, shell }: Settings,
  { command, cwd, timeoutSeconds }: ShellCall,
  sandbox: Sandbox.Shape,
  session: string,
  onOutput?: (chunk: Sandbox.OutputChunk) => void
) =>
  sandbox.exec([shell, "-c", command], {
    session,
    ...(cwd === undefined ? {} : { cwd }),
    timeout: `${timeoutSeconds} seconds`,
    maxOutputBytes,
    ...(onOutput === undefined ? {} : { onOutput })
  })

/**
 * How long a call waits after it has started a command in the background, in milliseconds, so that its result shows a failure at the start.
 */
const watchedMs = 1000

const startInBackground = Effect.fnUntraced(function* (
  { maxBackground, maxOutputBytes, maxResultLength, shell }: Settings,
  { command, cwd }: ShellCall,
  { callId, progress, runScope, sandbox }: Context
) {
  const started = yield* backgroundOf(sandbox).start({
    id: callId,
    line: [shell, "-c", command],
    cwd,
    scope: runScope,
    maxRunning: maxBackground,
    maxOutputLength: maxOutputBytes
  })
  yield* Effect.timeoutOption(ended(started), watchedMs)
  const { status } = started
  if (status._tag === "ended") progress(endText(status.result))
  if (status._tag === "failed") return yield* Effect.fail(status.error)
  return shownOutput(started, 0, maxResultLength)
})

/** Waits for the end of a command. */
const ended = ({ log }: BackgroundCommand): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const stop = log.onBeyond(Number.POSITIVE_INFINITY, () => resume(Effect.void))
    return Effect.sync(stop)
  })

/** Determines the outcome of a command whose call was started and has no result. */
export const reconcileCommand = Effect.fnUntraced(function* (
  settings: Settings,
  call: ShellCall,
  callId: string,
  sandbox: Sandbox.Shape
): Effect.fn.Return<Tool.Reconciled, unknown> {
  if (sandbox.capabilities.has("sessions")) {
    const status = yield* sandbox.findCommand(callId)
    if (status._tag === "unknown") return { _tag: "notHappened" }
    if (call.background) return { _tag: "happened", result: foundText(callId) }
    // The session is known, so the command is not run again: this waits for its end.
    const result = status._tag === "ended" ? status.result : yield* execute(settings, call, sandbox, callId)
    return { _tag: "happened", result: resultOf(result) }
  }
  // A command that only reads may be repeated.
  const { isHarmless } = yield* judgeCommand(settings, sandbox, call)
  return isHarmless ? { _tag: "notHappened" } : { _tag: "unknown" }
})

const foundText = (id: string): string =>
  `${id}: was started in the background. Read with shell_output how it stands.`
