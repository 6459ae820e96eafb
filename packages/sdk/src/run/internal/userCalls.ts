/**
 * Calls user code for a run, and fails tool calls because of it.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Entry } from "../../agent/Entry.ts"
import { type Called, call as callUserCode, logFailure } from "../../agent/internal/userCode.ts"
import { text } from "../../domain/Message.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import type { AnyTool, Awaitable } from "../../tool/Tool.ts"
import { isStopped, judgingMs, stateOf, type AgentRun } from "./AgentRun.ts"
import { emit, now } from "./Drive.ts"

/** Describes a call of user code for logs and spans: with its run and agent, and with its tool and tool call if it has any. */
export const calledOf = (
  run: AgentRun,
  code: string,
  call?: { readonly id: string },
  tool?: Pick<AnyTool, "name">
): Called => {
  const { agent, runId } = stateOf(run)
  return {
    code,
    runId,
    agent: agent.name,
    ...(tool === undefined ? {} : { tool: tool.name }),
    ...(call === undefined ? {} : { callId: call.id })
  }
}

/** Records that a call failed. The model receives `why`; the log and the hooks receive the cause. */
export const failCall = (
  run: AgentRun,
  call: ToolCall,
  code: "handler" | "definition",
  cause: Cause.Cause<unknown>,
  why: string
): void => {
  const { drive } = run
  const called = calledOf(run, code, call, { name: call.tool ?? call.name })
  emit(run, { _tag: "tool.failed", at: now(drive), callId: call.id, content: [text(why)] }, cause)
  Effect.runForkWith(drive.context)(logFailure(drive.runtime, called, cause))
}

export type ToolEntry = Extract<Entry, { readonly target: "tool" | "question" }>

/**
 * Calls a tool's callback about a call, supervised and within the call's timeout. Returns `undefined` if the run was stopped before it
 * answered.
 */
export function* askTool<A>(
  run: AgentRun,
  call: ToolCall,
  tool: AnyTool,
  code: "needsApproval" | "risk" | "preview" | "reconcile",
  ask: () => Awaitable<A, unknown>
): Effect.fn.Return<Exit.Exit<A, unknown> | undefined> {
  const called = calledOf(run, code, call, tool)
  const answer = yield* run.supervisor.run(callUserCode(run.drive.runtime, called, ask, judgingMs(run, tool)))
  return Exit.isFailure(answer) && isStopped(run, answer.cause) ? undefined : answer
}
