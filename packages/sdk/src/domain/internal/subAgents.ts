/**
 * The runs of sub-agents by the calls that lead to them: in the state of the run that they lie in, and in its journal, where they are
 * also when they have ended and left that state.
 */
import { evolve } from "../evolve.ts"
import type { ToolCallId } from "../Id.ts"
import type { RunEvent } from "../RunEvent.ts"
import { findChild, isEnded, type RunState } from "../RunState.ts"

/** The states of the runs that these calls lead through, the root's first, as far as the runs are at work. */
export const lineTo = (root: RunState, callIds: ReadonlyArray<ToolCallId>): ReadonlyArray<RunState> => {
  const line = [root]
  for (const callId of callIds) {
    const child = findChild(line[line.length - 1]!, callId)
    if (child === undefined) return line
    line.push(child)
  }
  return line
}

/** The event of a sub-agent's run, or of one under it, that an event of the root is; `undefined` when it is of another run. */
export const eventOfSubAgent = (event: RunEvent, path: ReadonlyArray<ToolCallId>): RunEvent | undefined => {
  let inner = event
  for (const callId of path) {
    if (inner._tag !== "child.advanced" || inner.callId !== callId) return undefined
    inner = inner.event
  }
  return inner
}

/** The sub-agent's state after an event of its own. Events that came after its end changed nothing. */
export const childAfter = (state: RunState | undefined, event: RunEvent): RunState | undefined => {
  if (state === undefined) return event._tag === "run.started" ? evolve(undefined, event) : undefined
  return isEnded(state) ? state : evolve(state, event)
}

/** The state of the sub-agent's run that these calls lead to; `undefined` when there never was one. */
export const childState = (
  events: Iterable<RunEvent>,
  path: ReadonlyArray<ToolCallId>
): RunState | undefined => {
  let state: RunState | undefined
  for (const event of events) {
    const inner = eventOfSubAgent(event, path)
    if (inner !== undefined) state = childAfter(state, inner)
  }
  return state
}
