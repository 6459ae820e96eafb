/**
 * Calls that user code has failed.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { logFailure } from "../../agent/internal/userCode.ts"
import { text } from "../../domain/Message.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { calledOf } from "./calledOf.ts"
import { emit, now, type Scope } from "./Drive.ts"

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
