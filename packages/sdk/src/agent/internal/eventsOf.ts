/**
 * What a decision that the store has taken means for a run.
 */
import * as Result from "effect/Result"
import type { Decision } from "../../domain/Decision.ts"
import { decide } from "../../domain/decide.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"

/** The decision's events; for one that no longer applies, the event that says so. */
export const eventsOf = (state: RunState, decision: Decision): ReadonlyArray<RunEvent> => {
  const { at, requestId } = decision
  const decided = decide(state, decision)
  return Result.isSuccess(decided)
    ? decided.success
    : [{ _tag: "request.superseded", at, requestId, reason: "it was decided when it no longer waited" }]
}
