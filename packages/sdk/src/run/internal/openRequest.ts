/**
 * Opening the requests that people decide about calls: whether one may run, and what became of one that had started.
 */
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import type { BoundAgent } from "../../agent/Entry.ts"
import type { MayRepeat, ToolCall } from "../../domain/RunState.ts"
import { type AgentRun, stateOf, isCallOpen, nextRequestId } from "./AgentRun.ts"
import { approvalDigest } from "./digest.ts"
import { now, emit } from "./Drive.ts"
import { idempotencyKey } from "./toolBody.ts"
import { askTool, type ToolEntry } from "./userCalls.ts"

/** When a request that is asked now expires; never, for a time that no calendar has. */
const expiryOf = (at: number, expiresIn: Duration.Input | undefined): number | undefined => {
  if (expiresIn === undefined) return undefined
  const expiresAt = at + Duration.toMillis(Duration.fromInputUnsafe(expiresIn))
  return expiresAt <= lastDate ? Math.ceil(expiresAt) : undefined
}

const lastDate = 8.64e15

/** Asks whether the call may run. `reason` says why it is asked when that is not plain. */
export function* openApproval(
  run: AgentRun,
  call: ToolCall,
  { definition, tool }: ToolEntry,
  args: Schema.Json,
  value: unknown,
  reason: string | undefined
): Effect.fn.Return<void> {
  const { drive } = run
  const { approval, preview, risk } = tool.options
  const shown =
    preview === undefined ? Exit.void : yield* askTool(run, call, tool, "preview", () => preview(value))
  const said =
    typeof risk === "function"
      ? yield* askTool(run, call, tool, "risk", () => risk(value))
      : Exit.succeed(risk)
  if (shown === undefined || said === undefined) return
  const state = stateOf(run)
  const identity = {
    agentPath: state.agentPath,
    tool: tool.name,
    schema: definition.schema,
    safety: definition.safety
  }
  const digest = yield* approvalDigest(identity, args)
  if (!isCallOpen(run, call.id)) return
  const at = now(drive)
  const expiresAt = expiryOf(at, approval?.expiresIn)
  const previewText = textOf(shown)
  const riskText = textOf(said)
  emit(run, {
    _tag: "request.opened",
    at,
    request: {
      _tag: "approval",
      requestId: nextRequestId(run),
      runId: state.runId,
      ...identity,
      at,
      callId: call.id,
      arguments: args,
      digest,
      ...(expiresAt === undefined ? {} : { expiresAt, onExpiry: approval?.onExpiry ?? "deny" }),
      ...(riskText === undefined ? {} : { risk: riskText }),
      ...(previewText === undefined ? {} : { preview: drive.runtime.scrubber.scrub(previewText) }),
      ...(reason === undefined ? {} : { reason })
    }
  })
}

/** What a function of the tool said, if it is a text. */
const textOf = (said: Exit.Exit<unknown, unknown>): string | undefined =>
  Exit.isSuccess(said) && typeof said.value === "string" ? said.value : undefined

/** Asks what became of a call that started. */
export const openInDoubt = (run: AgentRun, call: ToolCall, reason?: string): undefined => {
  if (!isCallOpen(run, call.id)) return undefined
  const state = stateOf(run)
  const at = now(run.drive)
  const definition = toolEntryOf(run.bound, call)?.definition
  const why = reason ?? (state.mayRepeat === undefined ? undefined : whyDoubted(state.mayRepeat))
  emit(run, {
    _tag: "request.opened",
    at,
    request: {
      _tag: "inDoubt",
      requestId: nextRequestId(run),
      runId: state.runId,
      agentPath: state.agentPath,
      at,
      callId: call.id,
      tool: call.tool ?? call.name,
      arguments: shownOf(call),
      idempotencyKey: idempotencyKey(call),
      ...(definition === undefined ? {} : { schema: definition.schema, safety: definition.safety }),
      startedAt: call.startedAt ?? at,
      attempt: call.attempt,
      ...(why === undefined ? {} : { reason: why })
    }
  })
}

const whyDoubted = ({ since }: MayRepeat): string =>
  since === undefined
    ? "the prompt was sent again to a store that had lost it, and the call may have run before"
    : `the store was restored from a backup, and the call may have run after ${new Date(since).toISOString()}`

/** The tool that a call names: by the definition's own name where the call used an alias of it. */
export const toolEntryOf = (bound: BoundAgent, call: ToolCall): ToolEntry | undefined => {
  const entry = bound.entries.get(call.tool ?? call.name)
  return entry !== undefined && "tool" in entry ? entry : undefined
}

/** The arguments of a call as they were shown. */
export const shownOf = ({ arguments: args = {}, value = args }: ToolCall) => value
