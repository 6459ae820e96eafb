/**
 * Finds released calls: those that a decision, an approval or a retry, permits to run. A call released by a retry had started before. Also
 * finds calls on hold, whose bodies have ended.
 */
import type * as Schema from "effect/Schema"
import type { Supply } from "../Decision.ts"
import { isHold } from "../Interruption.ts"
import { isSettled, type RequestRecord, type RunState, type ToolCall } from "../RunState.ts"

/** The record of the last request about a call. */
export const recordOf = ({ requests }: RunState, { requestId }: ToolCall): RequestRecord | undefined =>
  requestId === undefined ? undefined : requests.find(({ request }) => request.requestId === requestId)

/** Whether the body of an unsettled call has ended with a hold, also if its result has come. */
export const isLeftToHold = (state: RunState, call: ToolCall): boolean => {
  const request = call.status === "waiting" ? recordOf(state, call)?.request : undefined
  return request !== undefined && isHold(request)
}

/** Whether the body of a call has ended with a hold, and its result has not come. */
export const isOnHold = (state: RunState, call: ToolCall): boolean =>
  isLeftToHold(state, call) && recordOf(state, call)?.decision === undefined

/** The decision that supplies the result of an external call and that the run has not recorded yet; `undefined` if there is none. */
export const returnedBy = (state: RunState, call: ToolCall): Supply | undefined => {
  const record = call.status === "waiting" ? recordOf(state, call) : undefined
  const decision = record?.request._tag === "external" ? record.decision : undefined
  return decision?._tag === "supply" ? decision : undefined
}

/** The result that {@link returnedBy} supplies. */
export const returnedResult = (state: RunState, call: ToolCall): Schema.Json | undefined =>
  returnedBy(state, call)?.result

/** Whether a decision (approve or retry) has released a call. */
export const isReleased = (state: RunState, call: ToolCall): boolean => {
  const tag = recordOf(state, call)?.decision?._tag
  return tag === "approve" || tag === "retry"
}

/**
 * Whether the last approval request about a call was approved. A later retry of the call keeps the approval; a request that is superseded has
 * none.
 */
export const isApproved = ({ requests }: RunState, { id, requestId }: ToolCall): boolean => {
  if (requestId === undefined) return false
  const last = requests.findLast(({ request }) => request._tag === "approval" && request.callId === id)
  return last?.decision?._tag === "approve"
}

type Predicate = (call: ToolCall) => boolean

const isInTurn = (state: RunState, isMatch: Predicate): boolean =>
  state.calls.some(
    (call) =>
      !isSettled(call) &&
      ((isMatch(call) && isReleased(state, call)) ||
        (call.child !== undefined && isAnywhere(call.child, isMatch)))
  )

const isAnywhere = (state: RunState, isMatch: Predicate): boolean =>
  isInTurn(state, isMatch) ||
  (state.background ?? []).some(({ child }) => child !== undefined && isAnywhere(child, isMatch))

const isReady: Predicate = ({ status }) => status === "ready"

const isReadyOrStarted: Predicate = ({ status }) => status === "ready" || status === "started"

/** Whether the open turn, or a sub-agent that the turn waits for, has a released call that is ready or started. */
export const isTurnReleased = (state: RunState): boolean => isInTurn(state, isReadyOrStarted)

/** Whether a run, or any sub-agent in it, has a released call that is ready or started. */
export const isAnyReleased = (state: RunState): boolean => isAnywhere(state, isReadyOrStarted)

/** Whether a run, or any sub-agent in it, has a released call that is ready: it has not started, or not again. */
export const isAnyToRun = (state: RunState): boolean => isAnywhere(state, isReady)
