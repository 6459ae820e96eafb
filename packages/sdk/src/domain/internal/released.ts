/**
 * Calls that a decision has released and that have not come to their end: what was acknowledged and is still to be acted on.
 */
import { isSettled, type RequestRecord, type RunState, type ToolCall } from "../RunState.ts"

/** The request that was made about a call last, and what became of it. */
export const recordOf = ({ requests }: RunState, { requestId }: ToolCall): RequestRecord | undefined =>
  requestId === undefined ? undefined : requests.find(({ request }) => request.requestId === requestId)

/** Whether a decision has released a call. */
export const isReleased = (state: RunState, call: ToolCall): boolean => {
  const tag = recordOf(state, call)?.decision?._tag
  return tag === "approve" || tag === "retry"
}

type IsMeant = (call: ToolCall) => boolean

const isInTurn = (state: RunState, isMeant: IsMeant): boolean =>
  state.calls.some(
    (call) =>
      !isSettled(call) &&
      ((isMeant(call) && isReleased(state, call)) ||
        (call.child !== undefined && isAnywhere(call.child, isMeant)))
  )

const isAnywhere = (state: RunState, isMeant: IsMeant): boolean =>
  isInTurn(state, isMeant) ||
  (state.background ?? []).some(({ child }) => child !== undefined && isAnywhere(child, isMeant))

const isToRun: IsMeant = ({ status }) => status === "ready"

const isNotOver: IsMeant = ({ status }) => status === "ready" || status === "started"

/** Whether a released call of the open turn, or of a sub-agent that the turn waits for, is to run, or runs. */
export const isTurnReleased = (state: RunState): boolean => isInTurn(state, isNotOver)

/** Whether a released call of a run, or of any sub-agent in it, is to run, or runs. */
export const isAnyReleased = (state: RunState): boolean => isAnywhere(state, isNotOver)

/** Whether a released call of a run, or of any sub-agent in it, is still to run. */
export const isAnyToRun = (state: RunState): boolean => isAnywhere(state, isToRun)
