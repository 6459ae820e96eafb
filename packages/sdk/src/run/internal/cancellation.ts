/**
 * The events with which a run and everything under it is cancelled: one end for each, the innermost first.
 */
import type { Timestamp } from "../../domain/Id.ts"
import { type RunEvent, wrap } from "../../domain/RunEvent.ts"
import { children, isOpen, type RunState } from "../../domain/RunState.ts"
import { reportCalls } from "./reportCalls.ts"

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
