/**
 * Understanding all calls of an answer.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { ToolCallId } from "../../domain/Id.ts"
import { text } from "../../domain/Message.ts"
import { type ToolCall, findCall } from "../../domain/RunState.ts"
import type { Apart } from "../internal/apart.ts"
import { classify } from "./classify.ts"
import { emit, isEnding, isStopped, now, type Scope, stateOf } from "../internal/Drive.ts"
import { describe } from "../../agent/internal/userCode.ts"

/** Classifies the calls one after another; apart from the loop from the first on that takes time. */
export const classifyAll = (
  scope: Scope,
  callIds: ReadonlyArray<ToolCallId>,
  apart: Apart
): Effect.Effect<void> => {
  for (let index = 0; index < callIds.length; index += 1) {
    const rest = classifyOne(scope, callIds[index]!)
    if (rest !== undefined) return withOthers(scope, rest, callIds.slice(index + 1), apart)
  }
  return Effect.void
}

const withOthers = (
  scope: Scope,
  rest: Effect.Effect<void>,
  callIds: ReadonlyArray<ToolCallId>,
  apart: Apart
): Effect.Effect<void> => {
  const others = Effect.forEach(callIds, (callId) => classifyOne(scope, callId) ?? Effect.void, {
    discard: true
  })
  return Effect.asVoid(Effect.exit(apart.run(Effect.andThen(rest, others))))
}

const classifyOne = (scope: Scope, callId: ToolCallId): Effect.Effect<void> | undefined => {
  const call = findCall(stateOf(scope), callId)
  return call === undefined || isEnding(scope) ? undefined : guarded(scope, call, () => classify(scope, call))
}

/** Judges a call with user code: what the definition of the tool throws fails this call alone. */
export const guarded = (
  scope: Scope,
  call: ToolCall,
  judge: () => Effect.Effect<void, unknown> | undefined
): Effect.Effect<void> | undefined => {
  try {
    const rest = judge()
    return rest === undefined ? undefined : ending(scope, call, rest)
  } catch (defect) {
    return void failed(scope, call, defect)
  }
}

const ending = (scope: Scope, call: ToolCall, rest: Effect.Effect<void, unknown>) =>
  Effect.map(Effect.exit(rest), (exit) => {
    if (Exit.isFailure(exit) && !isStopped(scope, exit.cause)) failed(scope, call, Cause.squash(exit.cause))
  })

/** The definition of the tool is at fault. The call is over, or it would be classified for ever. */
const failed = (scope: Scope, { id, name }: ToolCall, defect: unknown): void => {
  const why = describe(scope.drive.runtime, defect)
  const content = [text(`${name} could not be prepared, and has not run: ${why}`)]
  emit(scope, { _tag: "tool.failed", at: now(scope.drive), callId: id, content })
}
