/**
 * The key of a call for the service that its tool calls.
 */
import type { ToolCall } from "../../domain/RunState.ts"

/** The key that every attempt of a call shares. */
export const idempotencyKey = (call: ToolCall): string => call.id
