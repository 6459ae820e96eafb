/**
 * Understanding all calls of an answer.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { ToolCallId } from "../../domain/Id.ts"
import { text } from "../../domain/Message.ts"
import { findCall } from "../../domain/RunState.ts"
import type { Apart } from "./apart.ts"
import { classify } from "./classify.ts"
import { describe, emit, isEnding, isStopped, now, type Scope, stateOf } from "./Drive.ts"

/** Classifies the calls one after another; apart from the loop from the first on that takes time. */
export const classifyAll = (
  scope: Scope<unknown>,
  callIds: ReadonlyArray<ToolCallId>,
  apart: Apart
): Effect.Effect<void> =>
  Effect.suspend(() => {
    for (const [index, callId] of callIds.entries()) {
      const rest = classifyOne(scope, callId)
      if (rest === undefined) continue
      const others = Effect.forEach(
        callIds.slice(index + 1),
        (callId) => classifyOne(scope, callId) ?? Effect.void,
        { discard: true }
      )
      return Effect.asVoid(Effect.exit(apart.run(Effect.andThen(rest, others))))
    }
    return Effect.void
  })

const classifyOne = (scope: Scope<unknown>, callId: ToolCallId): Effect.Effect<void> | undefined => {
  const call = findCall(stateOf(scope), callId)
  if (call === undefined || isEnding(scope)) return undefined
  // The definition of the tool is at fault. The call is over, or it would be classified for ever.
  const failed = (defect: unknown): void => {
    const why = describe(scope.drive.runtime, defect)
    const content = [text(`${call.name} could not be prepared, and has not run: ${why}`)]
    emit(scope, { _tag: "tool.failed", at: now(scope.drive), callId, content })
  }
  try {
    const rest = classify(scope, call)
    return rest === undefined
      ? undefined
      : Effect.map(Effect.exit(rest), (exit) => {
          if (Exit.isFailure(exit) && !isStopped(scope, exit.cause)) failed(Cause.squash(exit.cause))
        })
  } catch (defect) {
    return void failed(defect)
  }
}
