/**
 * What a decision that was taken means for a run.
 */
import * as Result from "effect/Result"
import { decide } from "../../domain/decide.ts"
import type { Decision } from "../../domain/Decision.ts"
import { evolve } from "../../domain/evolve.ts"
import { type RunEvent, wrap } from "../../domain/RunEvent.ts"
import { findRequest, type RunState } from "../../domain/RunState.ts"
import { passedOver } from "../../store/internal/requests.ts"

/** The decision's events; for one that no longer applies, the event that says so. */
export const eventsOf = (state: RunState, decision: Decision): ReadonlyArray<RunEvent> => {
  const { at, requestId } = decision
  const decided = decide(state, decision)
  if (Result.isSuccess(decided)) return decided.success
  // Time has decided once, however often that was found.
  if (
    decided.failure._tag === "AlreadyDecided" &&
    decided.failure.by === "expiry" &&
    decision.by === "expiry"
  )
    return []
  return [
    wrap(
      { _tag: "request.superseded", at, requestId, reason: passedOver },
      findRequest(state, requestId)?.path ?? []
    )
  ]
}

/** The same of several decisions, each in the state after those before it, and the state after all. */
export const foldDecisions = (from: RunState, decisions: ReadonlyArray<Decision>) => {
  let state = from
  const events = decisions.flatMap((decision) => {
    const decided = eventsOf(state, decision)
    state = decided.reduce<RunState>(evolve, state)
    return decided
  })
  return { events, state }
}

/** The state after decisions that were taken and that its journal does not hold. */
export const withDecisions = (state: RunState, decisions: ReadonlyArray<Decision>): RunState =>
  foldDecisions(state, decisions).state
