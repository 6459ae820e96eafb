/**
 * How a prompt ended: one of four, told supervisor by `status`.
 *
 * What happens inside a run is a result, never an exception. Every one carries the state; the ones that are not `completed`
 * can be continued from it.
 *
 * @since 0.1.0
 */
import type { RunId, SessionId } from "../domain/Id.ts"
import type { Interruption } from "../domain/Interruption.ts"
import type { AgentNotFound, RunError, ToolUnavailable } from "../domain/RunError.ts"
import type { RunState } from "../domain/RunState.ts"
import type { CallReport } from "../domain/ToolCall.ts"
import type { SessionUsage } from "../domain/Usage.ts"

interface Fields {
  readonly runId: RunId
  readonly sessionId: SessionId
  readonly state: RunState
  /** What this run consumed. */
  readonly usage: SessionUsage
}

/** The model answered and had nothing more to do. */
export interface Completed<Output> extends Fields {
  readonly status: "completed"
  readonly text: string
  /** The answer, decoded with the agent's output schema; `undefined` without one. */
  readonly output: Output
}

/** The run is held. Decide the requests, then continue it. */
export interface Interrupted extends Fields {
  readonly status: "interrupted"
  readonly interruptions: ReadonlyArray<Interruption>
  /**
   * What of the run cannot go on in this program: sub-agents that are gone, tools that calls wait for. All else goes on. Left out where
   * nothing is missing.
   */
  readonly missing?: ReadonlyArray<AgentNotFound | ToolUnavailable>
}

/** The run was ended from outside, or by a denial that said so. */
export interface Cancelled extends Fields {
  readonly status: "cancelled"
  readonly reason: string
  /** What became of each call of the last turn. */
  readonly calls: ReadonlyArray<CallReport>
}

/** The run could not go on. */
export interface Failed extends Fields {
  readonly status: "error"
  readonly error: RunError
}

/** How a prompt ended. */
export type RunResult<Output = unknown> = Completed<Output> | Interrupted | Cancelled | Failed
