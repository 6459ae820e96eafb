/**
 * User code that a run calls, and calls that it has failed.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type { Entry } from "../../agent/Entry.ts"
import { type Called, call as callUserCode, logFailure } from "../../agent/internal/userCode.ts"
import { text } from "../../domain/Message.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import type { AnyTool, Awaitable } from "../../tool/Tool.ts"
import { judgingMs, stateOf, type Scope } from "./AgentRun.ts"
import { emit, now } from "./Drive.ts"
/** User code of the scope's own run: of the call of a tool, of a tool, or of the agent itself. */
export const calledOf = (
  scope: Scope,
  code: string,
  call?: { readonly id: string },
  tool?: Pick<AnyTool, "name">
): Called => {
  const { agent, runId } = stateOf(scope)
  return {
    code,
    runId,
    agent: agent.name,
    ...(tool === undefined ? {} : { tool: tool.name }),
    ...(call === undefined ? {} : { callId: call.id })
  }
}

/** Records that a call has failed. The model reads why; the log and the hooks get the cause. */
export const failCall = (
  scope: Scope,
  call: ToolCall,
  code: "handler" | "definition",
  cause: Cause.Cause<unknown>,
  why: string
): void => {
  const { drive } = scope
  const called = calledOf(scope, code, call, { name: call.tool ?? call.name })
  emit(scope, { _tag: "tool.failed", at: now(drive), callId: call.id, content: [text(why)] }, cause)
  Effect.runForkWith(drive.context)(logFailure(drive.runtime, called, cause))
}
export type ToolEntry = Extract<Entry, { readonly target: "tool" | "question" }>
/** Asks a tool's own code about a call: it may take as long as the call may. */
export const askTool = <A>(
  scope: Scope,
  call: ToolCall,
  tool: AnyTool,
  code: "needsApproval" | "risk" | "preview" | "reconcile",
  ask: () => Awaitable<A, unknown>
): Effect.Effect<A, unknown> =>
  callUserCode(scope.drive.runtime, calledOf(scope, code, call, tool), ask, judgingMs(scope, tool))
