/**
 * Ending a run that cannot go on, and the sub-agents under it.
 */
import * as Effect from "effect/Effect"
import type { ToolCallId } from "../../domain/Id.ts"
import type { RunFailure } from "../../domain/RunError.ts"
import { wrap } from "../../domain/RunEvent.ts"
import { children } from "../../domain/RunState.ts"
import { childCancellation, closedRequests } from "./cancellation.ts"
import { now, emit, type Scope, stateOf } from "./Drive.ts"

/** Ends the sub-agents of a run, each with an end of its own. */
export const stopUnder = (scope: Scope, reason: string): Effect.Effect<void> =>
  Effect.suspend(() =>
    stopAll(
      scope,
      children(stateOf(scope)).map(({ callId }) => callId),
      reason
    )
  )

/** Ends the sub-agents of these calls, as far as they have not ended. What was promised to them is free again. */
export const stopAll = Effect.fnUntraced(function* (
  scope: Scope,
  callIds: ReadonlyArray<ToolCallId>,
  reason: string
) {
  const { drive } = scope
  if (callIds.length === 0) return
  yield* drive.tasks.stop(callIds, reason)
  const named = new Set(callIds)
  for (const { callId, child } of children(stateOf(scope))) {
    if (!named.has(callId)) continue
    for (const event of childCancellation(child, now(drive), reason)) emit(scope, wrap(event, [callId]))
  }
  drive.notify()
})

/** The run could not go on. What is under it is stopped first: a run that has failed leaves nobody at work. */
export const failRun = Effect.fnUntraced(function* (scope: Scope, failure: RunFailure) {
  const { drive } = scope
  const reason = `The run of ${stateOf(scope).agent.name} has failed.`
  if (scope.parent === undefined) {
    // It may be continued, and they with it: they are stopped where they stand.
    yield* drive.tasks.stop(
      children(stateOf(scope)).map(({ callId }) => callId),
      reason
    )
  } else {
    yield* stopUnder(scope, reason)
    for (const event of closedRequests(stateOf(scope), now(drive))) emit(scope, event)
  }
  emit(scope, { _tag: "run.failed", at: now(drive), failure })
})
