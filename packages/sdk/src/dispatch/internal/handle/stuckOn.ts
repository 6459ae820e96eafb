import type { AgentNotFound, ToolUnavailable } from "../../../domain/RunError.ts"
/**
 * Runs that wait for what this program has no definition of, and for nothing else.
 */
import type { RunResult } from "../../../run/RunResult.ts"

/** What a run waits for that no decision can give it: its handle ends with that, and the run stays as it is. */
export const stuckOn = (result: RunResult): AgentNotFound | ToolUnavailable | undefined =>
  result.status === "interrupted" && result.interruptions.length === 0 ? result.missing?.[0] : undefined
