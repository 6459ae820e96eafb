/**
 * What a tool's handler is told about the call it answers.
 *
 * @since 0.1.0
 */
import type { RunId, SessionId, ToolCallId } from "../domain/Id.ts"

/** One call, from the point of view of the handler. */
export interface ToolContext {
  readonly runId: RunId
  readonly sessionId: SessionId
  readonly callId: ToolCallId
  /** Names of the agents from the root to the one that called. */
  readonly agentPath: ReadonlyArray<string>
  /** From 1; above 1 when a call is repeated after a crash or by decision. */
  readonly attempt: number
  /** The same for every attempt of this call, and different for every other call: hand it to the service that has the effect. */
  readonly idempotencyKey: string
  /** Aborted when the call is cancelled or times out, before an effect of the handler is interrupted. */
  readonly signal: AbortSignal
  /** Tells whoever watches how far the call is. Not kept, and not told once the call is over. */
  readonly progress: (message: string) => void
  /** Streams a piece of output to whoever watches. Not kept: the handler's return value is the result. */
  readonly output: (chunk: string) => void
}
