/**
 * Calls that may be run again.
 */
import type { ToolCall } from "../../domain/RunState.ts"

/** Whether running the call again does no harm. */
export const isRepeatable = (call: ToolCall): boolean => call.safety === "readOnly" || call.idempotent
