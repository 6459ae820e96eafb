/**
 * Checks that the decisions that wait in a store can have been recorded there. The store refuses a decision that does not fit its
 * request, and marks each decision in the append that adds it to the journal. A waiting decision that does not fit, or that the journal
 * already contains, is therefore damage. Folding it would fail at every attempt, or would release a call without an approval.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { check } from "../../domain/decide.ts"
import type { Decision } from "../../domain/Decision.ts"
import { sentence } from "../../domain/Display.ts"
import type { RequestId } from "../../domain/Id.ts"
import { findRequest, isEnded, type RunState } from "../../domain/RunState.ts"
import { RunStoreError, StoreUnreadable } from "../../store/RunStoreError.ts"

/**
 * Checks the decisions that a run's journal does not contain, before they are folded into its state.
 *
 * **Errors**
 *
 * - `RunStoreError` (`StoreUnreadable`) — a decision cannot have been recorded.
 */
export const requireSoundDecisions = (
  state: RunState,
  decisions: ReadonlyArray<Decision>
): Effect.Effect<void, RunStoreError> => {
  if (isEnded(state)) return Effect.void
  for (const decision of decisions) {
    const { requestId } = decision
    const record = findRequest(state, requestId)?.record
    if (record === undefined) return damaged(state, requestId, "which the run never asked")
    if (record.decision !== undefined)
      return damaged(state, requestId, "which its journal has decided already")
    if (record.superseded !== undefined) return damaged(state, requestId, "which the run has withdrawn")
    if (Result.isFailure(check(record.request, decision)))
      return damaged(state, requestId, "which it does not fit")
  }
  return Effect.void
}

/**
 * Checks during a drive only that each decision fits its request: the run's own events may have closed the request at the moment of the
 * decision.
 */
export const requireFitting = (
  state: RunState,
  decisions: ReadonlyArray<Decision>
): Effect.Effect<void, RunStoreError> => {
  for (const decision of decisions) {
    const record = findRequest(state, decision.requestId)?.record
    if (record !== undefined && Result.isFailure(check(record.request, decision)))
      return damaged(state, decision.requestId, "which it does not fit")
  }
  return Effect.void
}

const damaged = (
  { runId }: RunState,
  requestId: RequestId,
  why: string
): Effect.Effect<never, RunStoreError> =>
  Effect.fail(
    new RunStoreError({
      operation: "load",
      reason: new StoreUnreadable({
        detail: sentence`the run ${runId} has a decision of the request ${requestId}, ${why}: restore the store from a backup, or remove the run.`
      })
    })
  )
