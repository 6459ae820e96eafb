/**
 * Finds the runs of sub-agents by the calls that lead to them: in the state of the root, and in its journal, which also holds the runs
 * that have ended and left the state.
 */
import { evolve } from "../evolve.ts"
import type { ToolCallId } from "../Id.ts"
import type { RunEvent } from "../RunEvent.ts"
import { findChild, isEnded, type RunState } from "../RunState.ts"

/** The states of the runs on the path of these calls, the root's first. Ends at the first run that the state does not hold. */
export const lineTo = (root: RunState, callIds: ReadonlyArray<ToolCallId>): ReadonlyArray<RunState> => {
  const line = [root]
  for (const callId of callIds) {
    const child = findChild(line[line.length - 1]!, callId)
    if (child === undefined) return line
    line.push(child)
  }
  return line
}

/** Unwraps an event of the root to the event of the run at `path`, or of a run under it; `undefined` if it belongs to another run. */
export const eventOfSubAgent = (event: RunEvent, path: ReadonlyArray<ToolCallId>): RunEvent | undefined => {
  let inner = event
  for (const callId of path) {
    if (inner._tag !== "child.advanced" || inner.callId !== callId) return undefined
    inner = inner.event
  }
  return inner
}

/** Computes a sub-agent's state after an event of its run. Events after the run's end change nothing. */
export const childAfter = (state: RunState | undefined, event: RunEvent): RunState | undefined => {
  if (state === undefined) return event._tag === "run.started" ? evolve(undefined, event) : undefined
  return isEnded(state) ? state : evolve(state, event)
}

/** Folds a root's journal to the state of the run at `path`; `undefined` if that run never started. */
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
