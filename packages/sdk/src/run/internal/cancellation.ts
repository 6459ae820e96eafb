/**
 * The events with which a run and everything under it is cancelled: one end for each, the innermost first.
 */
import * as History from "../../domain/History.ts"
import type { Timestamp } from "../../domain/Id.ts"
import { recordOf } from "../../domain/internal/released.ts"
import type { ToolOutcome } from "../../domain/Message.ts"
import { type RunEvent, wrap } from "../../domain/RunEvent.ts"
import { children, isOpen, type RunState, isRepeatable, type ToolCall } from "../../domain/RunState.ts"
import type { CallReport } from "../../domain/ToolCall.ts"

/** What cancelling a whole run means for it and its sub-agents. The store closes the requests of the root. */
export const cancellation = (state: RunState, at: Timestamp, reason: string): ReadonlyArray<RunEvent> => [
  ...children(state).flatMap(({ callId, child }) =>
    childCancellation(child, at, reason).map((event) => wrap(event, [callId]))
  ),
  { _tag: "run.cancelled", at, reason, calls: reportCalls(state) }
]

/** What cancelling the run of a sub-agent means: nobody needs to answer what it has asked. */
export const childCancellation = (
  child: RunState,
  at: Timestamp,
  reason: string
): ReadonlyArray<RunEvent> => [...closedRequests(child, at), ...cancellation(child, at, reason)]

/** The requests of a sub-agent's run that nobody needs to answer any more, since it ends. */
export const closedRequests = (child: RunState, at: Timestamp): ReadonlyArray<RunEvent> =>
  child.requests.filter(isOpen).map(({ request: { requestId } }) => {
    const reason = `the run of ${child.agent.name} has ended`
    return { _tag: "request.superseded", at, requestId, reason }
  })

/** What a cancelled run says about its calls, and about those of the sub-agents inside them. */
export const reportCalls = (state: RunState): ReadonlyArray<CallReport> =>
  state.calls.length === 0 ? closedTurn(state) : openTurn(state)

/** The last call may have finished after the run was told to stop; its turn is then in the history already. */
const closedTurn = (state: RunState): ReadonlyArray<CallReport> => {
  const messages = History.toArray(state.history)
  const last = messages.findLastIndex(({ role }) => role !== "tool")
  return messages
    .slice(last + 1)
    .flatMap((message) =>
      message.role === "tool"
        ? [{ callId: message.callId, tool: message.name, state: endOf(message.outcome) }]
        : []
    )
}

const openTurn = (state: RunState): ReadonlyArray<CallReport> =>
  state.calls.flatMap((call): ReadonlyArray<CallReport> => {
    const inside = call.child === undefined ? [] : reportCalls(call.child)
    const own = { callId: call.id, tool: call.name, ...releasedBy(state, call) }
    if (call.result !== undefined) return [{ ...own, state: endOf(call.result.outcome) }]
    if (call.status === "inDoubt") return [{ ...own, state: "inDoubt" }]
    // What is to run again may have happened the first time.
    if (call.status !== "started" && call.attempt === 0) return [{ ...own, state: "notStarted" }]
    if (call.target === "agent") {
      const doubt = inside.some((report) => report.state === "inDoubt")
      return [{ ...own, state: doubt ? "inDoubt" : "aborted" }, ...inside]
    }
    return [{ ...own, state: isRepeatable(call) ? "aborted" : "inDoubt" }]
  })

/** The decision that has released a call whose body has not begun since. */
export const releasedBy = (state: RunState, call: ToolCall): Pick<CallReport, "decided"> => {
  const decision = call.status === "ready" ? recordOf(state, call)?.decision : undefined
  return decision?._tag === "approve" || decision?._tag === "retry"
    ? { decided: { requestId: decision.requestId, decision: decision._tag } }
    : {}
}

/** What was denied or supplied has a result, and its body never ran. */
const endOf = (outcome: ToolOutcome): CallReport["state"] =>
  outcome === "denied" || outcome === "supplied" ? "notStarted" : "finished"
