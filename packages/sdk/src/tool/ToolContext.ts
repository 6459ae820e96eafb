/**
 * What a tool's handler knows about the call that it answers.
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
  /** Publishes the progress of the call to its subscribers. Not kept, and not published once the call is over. */
  readonly progress: (message: string) => void
  /** Streams a piece of output to the run's subscribers. Not kept: the handler's return value is the result. */
  readonly output: (chunk: string) => void
}
