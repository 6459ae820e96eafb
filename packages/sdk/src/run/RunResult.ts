/**
 * The outcome of running a prompt: `completed`, `interrupted`, `cancelled` or `error`, in `status`.
 *
 * Failures inside a run are results, not exceptions. Every result has the state. An `interrupted` or `error` run can be continued from it;
 * after any end, a prompt with it starts the next run of the session.
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
  /** What this run and its sub-agents consumed; `turns` are the run's own. */
  readonly usage: SessionUsage
}

/** The model answered without further calls, in the form of the output schema if the agent has one. */
export interface Completed<Output> extends Fields {
  readonly status: "completed"
  /** The text of the last answer. */
  readonly text: string
  /** The answer, decoded with the output schema of the agent that answered; `undefined` if that agent has none. */
  readonly output: Output
}

/**
 * The run waits: for decisions on `interruptions` (for a timer, its expiry; for an external call, its completion), for definitions that are
 * `missing`, or for both. Provide them, then continue it. Without either, it waits for the first slot of its conductor, or, as a
 * sub-agent's run, for its root.
 */
export interface Interrupted extends Fields {
  readonly status: "interrupted"
  /** The open requests of the run and its sub-agents; may be empty. */
  readonly interruptions: ReadonlyArray<Interruption>
  /**
   * Agents and tools that the run needs and that this program does not have, tools whose schema refuses the context of the run, tools whose
   * call needs a secret while the program has no source of secrets, and tools whose sandbox the program cannot use. The parts of the run
   * that need them wait. Absent if there are none.
   */
  readonly missing?: ReadonlyArray<AgentNotFound | ToolUnavailable>
}

/** The run was cancelled, or stopped by a denial with `then: "stop"` or of a login. */
export interface Cancelled extends Fields {
  readonly status: "cancelled"
  readonly reason: string
  /** A report on each call of the last turn, and on those of the sub-agents that the turn was waiting for. */
  readonly calls: ReadonlyArray<CallReport>
}

/**
 * The run failed. The cause is in `error`: a budget, the model, a file that the model was to receive and that cannot be read, a model whose
 * window is not known under a strict context policy, a defect in the program's own code or in the drive, or too many processes in a row
 * that left the run without progress. The state can be continued when the cause is removed, except that of a completed run whose stored
 * output no longer fits the agent's output schema.
 */
export interface Failed extends Fields {
  readonly status: "error"
  readonly error: RunError
}

/** The outcome of running a prompt. */
export type RunResult<Output = unknown> = Completed<Output> | Interrupted | Cancelled | Failed
