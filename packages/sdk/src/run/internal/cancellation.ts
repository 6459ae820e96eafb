/**
 * The events that cancel a run and the runs under it: one end for each run, innermost first.
 */
import * as History from "../../domain/History.ts"
import type { RunId, Timestamp, ToolCallId } from "../../domain/Id.ts"
import { isOnHold, recordOf, returnedResult } from "../../domain/internal/released.ts"
import type { TextPart, ToolOutcome } from "../../domain/Message.ts"
import { type RunEvent, wrap } from "../../domain/RunEvent.ts"
import { children, isOpen, type RunState, isRepeatable, type ToolCall } from "../../domain/RunState.ts"
import type { CallReport } from "../../domain/ToolCall.ts"

/** The texts of responses that were being streamed when their model calls were stopped, by the id of the run. */
export type Said = ReadonlyMap<RunId, ReadonlyArray<TextPart>>

/** The events that cancel a run and its sub-agents. The store closes the requests of the root. */
export const cancellation = (
  state: RunState,
  at: Timestamp,
  reason: string,
  all?: Said
): ReadonlyArray<RunEvent> => {
  const said = all?.get(state.runId)
  return [
    ...children(state).flatMap(({ callId, child }) =>
      childCancellation(child, at, reason, all).map((event) => wrap(event, [callId]))
    ),
    { _tag: "run.cancelled", at, reason, calls: reportCalls(state), ...(said === undefined ? {} : { said }) }
  ]
}

/** The events that cancel a sub-agent's run. They withdraw its open requests. */
export const childCancellation = (
  child: RunState,
  at: Timestamp,
  reason: string,
  all: Said | undefined
): ReadonlyArray<RunEvent> => [...closedRequests(child, at), ...cancellation(child, at, reason, all)]

/** The events that withdraw the open requests of a sub-agent's run that ends. */
export const closedRequests = (child: RunState, at: Timestamp): ReadonlyArray<RunEvent> =>
  child.requests.filter(isOpen).map(({ request: { requestId } }) => {
    const reason = `the run of ${child.agent.name} has ended`
    return { _tag: "request.superseded", at, requestId, reason }
  })

/** The call reports of a cancelled run, including the calls of sub-agents inside its calls. */
export const reportCalls = (state: RunState): ReadonlyArray<CallReport> =>
  state.calls.length === 0 ? closedTurn(state) : openTurn(state)

/** Reports a turn that has no open calls: the last call finished after the cancellation, and the results are in the history. */
const closedTurn = (state: RunState): ReadonlyArray<CallReport> => {
  const messages = History.toArray(state.history)
  const last = messages.findLastIndex(({ role }) => role !== "tool")
  return messages.slice(last + 1).flatMap((message) =>
    message.role === "tool"
      ? [
          {
            callId: message.callId,
            tool: message.name,
            state: endOf(state, message.callId, message.outcome)
          }
        ]
      : []
  )
}

const openTurn = (state: RunState): ReadonlyArray<CallReport> =>
  state.calls.flatMap((call): ReadonlyArray<CallReport> => {
    const inside = call.child === undefined ? [] : reportCalls(call.child)
    const own = { callId: call.id, tool: call.name, ...releasedBy(state, call) }
    if (call.result !== undefined) return [{ ...own, state: endOf(state, call.id, call.result.outcome) }]
    if (returnedResult(state, call) !== undefined) return [{ ...own, state: "finished" }]
    if (call.status === "inDoubt") return [{ ...own, state: "inDoubt" }]
    // A call with an earlier attempt may have taken effect.
    if (call.status !== "started" && call.attempt === 0) return [{ ...own, state: "notStarted" }]
    if (call.target === "agent") {
      const doubt = inside.some((report) => report.state === "inDoubt")
      return [{ ...own, state: doubt ? "inDoubt" : "aborted" }, ...inside]
    }
    return [{ ...own, state: isRepeatable(call) || isWait(state, call) ? "aborted" : "inDoubt" }]
  })

/** Whether the body of a call has ended with a wait for a time: a cancellation then only ends the wait. */
const isWait = (state: RunState, call: ToolCall): boolean =>
  isOnHold(state, call) && recordOf(state, call)?.request._tag === "timer"

/** The decision that released a call whose body has not started since. */
export const releasedBy = (state: RunState, call: ToolCall): Pick<CallReport, "decided"> => {
  const decision = call.status === "ready" ? recordOf(state, call)?.decision : undefined
  return decision?._tag === "approve" || decision?._tag === "retry"
    ? { decided: { requestId: decision.requestId, decision: decision._tag } }
    : {}
}

/** The body of a denied call never ran, and neither did that of a supplied one, unless the call was in doubt. */
const endOf = (state: RunState, callId: ToolCallId, outcome: ToolOutcome): CallReport["state"] => {
  if (outcome === "denied") return "notStarted"
  return outcome === "supplied" && !wasInDoubt(state, callId) ? "notStarted" : "finished"
}

const wasInDoubt = ({ requests }: RunState, callId: ToolCallId): boolean =>
  requests.some(({ request }) => request._tag === "inDoubt" && request.callId === callId)
