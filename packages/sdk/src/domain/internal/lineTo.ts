/**
 * The way from a run to the run of a sub-agent in it.
 */
import type { ToolCallId } from "../Id.ts"
import { findChild, type RunState } from "../RunState.ts"

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
