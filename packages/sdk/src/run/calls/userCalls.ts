/**
 * Calls user code for a run, and records the results and failures of tool calls.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type { Entry } from "../../agent/Entry.ts"
import {
  type Called,
  call as callUserCode,
  describeFailure,
  logFailure
} from "../../agent/internal/userCode.ts"
import type { BlobRef } from "../../domain/Blob.ts"
import type { Supply } from "../../domain/Decision.ts"
import { lines, sentence } from "../../domain/Display.ts"
import { withoutUndefined } from "../../domain/internal/untyped.ts"
import { text, type TextPart } from "../../domain/Message.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { holdOf } from "../../tool/Hold.ts"
import { cutPart, type Keep, longestResult } from "../../tool/internal/cutResult.ts"
import { decodeSuccess, encodeSuccess } from "../../tool/internal/encodeSuccess.ts"
import { shownResult } from "../../tool/internal/shownResult.ts"
import type { AnyTool, Awaitable } from "../../tool/Tool.ts"
import { ToolResultInvalid } from "../../tool/ToolError.ts"
import { isStopped, judgingMs, stateOf, type AgentRun } from "../internal/AgentRun.ts"
import { emit, now } from "../internal/Drive.ts"
import { openHold } from "./openHold.ts"

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
  code: "handler" | "definition" | "secrets",
  cause: Cause.Cause<unknown>,
  why: string | TextPart,
  /** The tool whose body failed. */
  tool?: AnyTool
): void => {
  const { drive } = run
  const called = calledOf(run, code, call, { name: call.tool ?? call.name })
  emit(
    run,
    {
      _tag: "tool.failed",
      at: now(drive),
      callId: call.id,
      content: [typeof why === "string" ? text(why) : why],
      ...markOf(tool)
    },
    cause
  )
  Effect.runForkWith(drive.context)(logFailure(drive.runtime, called, cause))
}

/**
 * Records what a body returned. A hold opens the request that the call waits for. A value that cannot be shown fails the call; the model
 * reads that the body has run.
 */
export const recordResult = (
  run: AgentRun,
  call: ToolCall,
  tool: AnyTool | undefined,
  value: unknown
): void => {
  const hold = holdOf(value)
  if (hold !== undefined) return openHold(run, call, hold)
  show(run, call, tool, Result.succeed(value))
}

/** Records the result that another system supplied to an external call, as if the body, which returned a hold, had returned it. */
export const recordReturned = (
  run: AgentRun,
  call: ToolCall,
  tool: AnyTool | undefined,
  { result, whole }: Supply
): void => show(run, call, tool, decodeSuccess(tool?.options.success, result), whole)

const show = (
  run: AgentRun,
  call: ToolCall,
  tool: AnyTool | undefined,
  result: Result.Result<unknown, string>,
  /** The whole text, if the result is its shortened form. */
  whole?: BlobRef
): void => {
  const { drive } = run
  const keep = whole === undefined ? keepIn(run) : () => whole
  const shown = Result.flatMap(result, (value) => encodeSuccess(tool?.options.success, value))
  const content = Result.map(
    Result.flatMap(shown, (encoded) =>
      shownResult(drive.runtime.scrubber, encoded, longestOf(run, tool), keep)
    ),
    (parts) =>
      whole === undefined ? parts : parts.map((part) => (part._tag === "text" ? { ...part, whole } : part))
  )
  if (Result.isSuccess(content)) {
    const event = { at: now(drive), callId: call.id, content: content.success, ...markOf(tool) }
    return emit(run, { _tag: "tool.completed", ...event })
  }
  const problem = content.failure
  const cause = Cause.fail(new ToolResultInvalid({ tool: tool?.name ?? call.name, problem }))
  const effect = call.safety === "readOnly" ? "" : " It may have taken effect."
  const why = sentence`${call.name} ran, but its result cannot be shown: ${lines(problem)}.`
  failCall(run, call, "handler", cause, `${why}${effect}`)
}

/** Records that a body failed. */
export const recordFailure = (
  run: AgentRun,
  call: ToolCall,
  tool: AnyTool,
  cause: Cause.Cause<unknown>
): void => {
  const why = Cause.hasInterruptsOnly(cause)
    ? "it stopped itself"
    : describeFailure(run.drive.runtime, tool, Cause.squash(cause))
  const { text: shown, whole } = failureText(run, tool, why)
  const said: TextPart = { ...text(`${call.name} failed: ${shown}`), ...withoutUndefined({ whole }) }
  // The message of a failure can contain untrusted text, too.
  failCall(run, call, "handler", cause, said, tool)
}

/** The mark of untrusted results. */
export const markOf = (tool: AnyTool | undefined): { readonly untrusted?: true } =>
  tool?.options.untrusted === true ? { untrusted: true } : {}

/** Keeps the whole of a shortened result beside the journal, if the run's store keeps contents. */
const keepIn = ({ drive: { journal } }: AgentRun): Keep => {
  const { contents } = journal
  return contents === undefined ? undefined : (bytes) => contents.add(bytes)
}

/** A failure as the model reads it. */
export const failureText = (run: AgentRun, tool: AnyTool | undefined, said: string): TextPart =>
  cutPart(said, longestOf(run, tool), keepIn(run))

/** The longest result of a tool, in characters. */
const longestOf = ({ drive }: AgentRun, tool: AnyTool | undefined): number =>
  tool?.options.maxResultLength ?? drive.runtime.options.maxResultLength ?? longestResult

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
