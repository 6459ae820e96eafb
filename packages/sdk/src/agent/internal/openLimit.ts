/**
 * Asking for more of a budget.
 */
import type { Exceeded } from "../../domain/Limits.ts"
import { emit, nextRequestId, now, type Scope, stateOf } from "./Drive.ts"

/** Asks whether a used-up budget may be topped up. */
export const openLimit = (scope: Scope<unknown>, exceeded: Exceeded): void => {
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
