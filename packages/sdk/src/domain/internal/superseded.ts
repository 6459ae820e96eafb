/**
 * Turns that the user has superseded: no call of one begins any more, and the sub-agents that it waits for are stopped.
 *
 * A decision with `supersedes` names the run to which something else was said. It supersedes the open turn of that run and of each run
 * from there down to its request. Calls that have begun come to their end; every other call has its result at once, whichever of the
 * decisions on the turn is folded first.
 */
import { isWithin, type Timestamp } from "../Id.ts"
import { text } from "../Message.ts"
import { type RunEvent, unwrap } from "../RunEvent.ts"
import type { RunState, ToolCall } from "../RunState.ts"
import * as RunState_ from "../RunState.ts"
import { recordOf } from "./released.ts"
import { releasedText, settle } from "./turn.ts"

/** Supersedes the open turn where the event says so, and settles what has not begun in a superseded turn. */
export const supersede = (state: RunState, event: RunEvent): RunState => {
  const marked = state.superseded === undefined ? mark(state, event) : state
  return marked.superseded === undefined ? marked : dropCalls(marked, event.at)
}

const mark = (state: RunState, event: RunEvent): RunState => {
  if (event._tag !== "request.decided" && event._tag !== "child.advanced") return state
  const { event: inner } = unwrap(event)
  if (inner._tag !== "request.decided" || state.calls.length === 0) return state
  const { decision } = inner
  const run = "supersedes" in decision ? decision.supersedes : undefined
  if (run === undefined || !isWithin(state.runId, run)) return state
  const stop = { by: decision.by, reason: superseding }
  return {
    ...state,
    superseded: { by: decision.by, run },
    calls: state.calls.map((call) =>
      call.child === undefined || RunState_.isSettled(call) || call.child.stop !== undefined
        ? call
        : { ...call, child: { ...call.child, stop } }
    )
  }
}

const superseding = "the user has said something else instead"

const dropCalls = (state: RunState, at: Timestamp): RunState => {
  let after = state
  for (const call of state.calls) {
    if (call.status !== "requested" && call.status !== "ready") continue
    after = settle(after, call.id, "cancelled", [text(droppedText(state, call))], at)
  }
  return after
}

const droppedText = (state: RunState, call: ToolCall): string => {
  const why = state.superseded?.run === state.runId ? `${superseding}; it follows` : superseding
  const decision = recordOf(state, call)?.decision
  if (decision?._tag === "approve" || decision?._tag === "retry") {
    return releasedText(decision._tag, decision.by, why)
  }
  return call.attempt === 0
    ? `This call has not run: ${why}.`
    : `This call was started and it is not known whether it took effect. It was not run again: ${why}.`
}
