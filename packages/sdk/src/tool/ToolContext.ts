/**
 * The data and functions that a tool's handler receives about its call.
 *
 * @since 0.1.0
 */
import type { RunId, SessionId, ToolCallId } from "../domain/Id.ts"
import type { RunContext } from "../domain/RunContext.ts"
import type { Shape as Sandbox } from "../sandbox/Sandbox.ts"

/** What a handler receives about its call. `Context` is the context of the run as the tool's schema `context` decodes it. */
export interface ToolContext<Context = RunContext> {
  readonly runId: RunId
  readonly sessionId: SessionId
  readonly callId: ToolCallId
  /** The names of the agents from the root to the agent that made the call. */
  readonly agentPath: ReadonlyArray<string>
  /** The context of the run, which its caller gave: for example, its tenant and user. Without a schema, JSON. */
  readonly context: Context
  /**
   * The number of this attempt, from 1: above 1 after a crash, after the loss of a store in which the call may have run, or by a `retry`
   * decision. The tries of a `retry` schedule share one number.
   */
  readonly attempt: number
  /** A key that all attempts of this call share and no other call has. Pass it to the external service. */
  readonly idempotencyKey: string
  /** Aborted when the call is cancelled or times out, or the process suspends the run, before the handler's effect is interrupted. */
  readonly signal: AbortSignal
  /** Publishes a progress message to the run's subscribers. It is not stored, and is dropped after the end of the call. */
  readonly progress: (message: string) => void
  /**
   * Publishes a piece of output to the run's subscribers. It is not stored, and is dropped after the end of the call; the handler's return
   * value is the result.
   */
  readonly output: (chunk: string) => void
}

/**
 * The sandbox in the context of a handler whose tool has `sandbox: true`: that of the run, which all of its calls and sub-agents share.
 * Without the option, the context has no sandbox.
 */
export type InSandbox<Sandboxed extends boolean> = [Sandboxed] extends [true]
  ? { readonly sandbox: Sandbox }
  : unknown
