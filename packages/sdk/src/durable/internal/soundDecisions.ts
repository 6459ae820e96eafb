/**
 * Whether the decisions that wait in a store can be what callers decided. The store refuses a decision that does not fit its request, and
 * marks one in the append that takes it into the journal: one that does not fit, or that the journal has already, was put there by damage.
 * Folding it would fail at every attempt, or release what nobody released.
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
 * Looks at the decisions that the journal of a run does not hold, before they are folded into its state.
 *
 * **Errors**
 *
 * - `RunStoreError` (`StoreUnreadable`): one of them cannot have been taken.
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
 * The same while the run is at work, when its own events may have closed a request in the moment in which it was decided: only whether
 * each decision fits what was asked.
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
