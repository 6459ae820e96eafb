/**
 * What a process that died has not written about sub-agents that wait.
 */
import type { ToolCallId } from "../../domain/Id.ts"
import { aboveOf, canAdvance } from "../../domain/next.ts"
import { wrap } from "../../domain/RunEvent.ts"
import { children, isEnded, type RunState } from "../../domain/RunState.ts"
import { type Drive, emitRoot, now } from "./Drive.ts"

/** Marks the sub-agents that wait as held, as far as they are not, so that the time does not count for them. */
export const holdIdle = (drive: Drive): void => {
  const mark = (line: ReadonlyArray<RunState>, path: ReadonlyArray<ToolCallId>) => {
    const waiting = children(line[line.length - 1]!)
    if (waiting.length === 0) return
    const above = aboveOf(line, drive.above)
    for (const { callId, child } of waiting) {
      const inside = [...path, callId]
      if (isEnded(child) || child.status === "held") continue
      if (canAdvance(child, above)) mark([...line, child], inside)
      else emitRoot(drive, wrap({ _tag: "run.held", at: now(drive) }, inside))
    }
  }
  mark([drive.state], [])
}
