/**
 * Asking for more of a budget, and no longer asking.
 */
import type { Interruption } from "../../domain/Interruption.ts"
import type { Exceeded } from "../../domain/Limits.ts"
import { emit, nextRequestId, now, type Scope, stateOf } from "./Drive.ts"

/** Asks whether a used-up budget may be topped up. */
export const openLimit = (scope: Scope, exceeded: Exceeded): void => {
  const state = stateOf(scope)
  const at = now(scope.drive)
  emit(scope, {
    _tag: "request.opened",
    at,
    request: {
      _tag: "limit",
      requestId: nextRequestId(scope),
      runId: state.runId,
      agentPath: state.agentPath,
      at,
      ...exceeded
    }
  })
}

/** Nobody needs to give more of a budget that has room again. */
export const withdrawLimits = (scope: Scope, requests: ReadonlyArray<Interruption>): void => {
  for (const { requestId } of requests) {
    const reason = "there is room in the budget again: a sub-agent has not used all that was set aside for it"
    emit(scope, { _tag: "request.superseded", at: now(scope.drive), requestId, reason })
  }
}
