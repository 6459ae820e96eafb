/**
 * The arguments of hooks. `RuntimeHooks` exports these types.
 */
import type * as Cause from "effect/Cause"
import type { Decision } from "../../domain/Decision.ts"
import type { RunId, SessionId, Timestamp, ToolCallId } from "../../domain/Id.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import type { ToolOutcome } from "../../domain/Message.ts"
import type { RunFailure } from "../../domain/RunError.ts"
import type { FinishReason } from "../../domain/RunEvent.ts"
import type { ModelUsage, SessionUsage } from "../../domain/Usage.ts"

/** The run that a notice is about: the root's or a sub-agent's. */
export interface Notice {
  /** The id of the run itself. */
  readonly runId: RunId
  readonly sessionId: SessionId
  /** The names of the agents from the root to this run's agent. */
  readonly agentPath: ReadonlyArray<string>
  readonly at: Timestamp
}

/** A turn has ended: the model has responded, and every call has its result. */
export interface TurnNotice extends Notice {
  /** The number of the turn, from 1. */
  readonly turn: number
  readonly calls: ReadonlyArray<{
    readonly callId: ToolCallId
    readonly tool: string
    readonly outcome: ToolOutcome
  }>
  /** The usage of the run so far, including its sub-agents. */
  readonly usage: SessionUsage
}

/** A model call that is attempted again. */
interface Attempted {
  /** The id of the root's run. */
  readonly runId: RunId
  /** The id of the run that calls the model: the root's or a sub-agent's. */
  readonly agentRunId: RunId
  readonly agentPath: ReadonlyArray<string>
  readonly turn: number
}

/**
 * A model call: `answered`, `failed` so that the run has failed, about to be retried (`retry`), or repeated without streaming (`fallback`).
 */
export type ModelCallNotice =
  | (Notice & {
      readonly status: "answered"
      readonly turn: number
      readonly usage: ModelUsage
      readonly finishReason: FinishReason
      /** The model profile that answered, if the client reports it. */
      readonly profile?: string
      /**
       * Milliseconds since the run's previous event; absent if the observer has not seen that event. Includes the preparation of the call
       * and its earlier attempts.
       */
      readonly ms?: number
    })
  | (Notice & { readonly status: "failed"; readonly turn: number; readonly reason: string })
  | (Attempted & {
      readonly status: "retry"
      readonly attempt: number
      readonly waitMs: number
      readonly reason: string
    })
  | (Attempted & { readonly status: "fallback"; readonly reason: string })

/** A call was started, or has its result. A sub-agent's run is also a call of its lead's run. */
export interface ToolCallNotice extends Notice {
  readonly callId: ToolCallId
  readonly tool: string
  readonly status: "started" | ToolOutcome
  /** The number of times it was started. */
  readonly attempt: number
  /** Milliseconds from the call's last start to its result; left out when the call starts, and if it never started. */
  readonly ms?: number
  /**
   * The cause of the failure of its code, without secrets: an error, a defect or a rejection, with its stack. Left out if no code failed in
   * this process.
   */
  readonly cause?: Cause.Cause<unknown>
}

/** A request was opened, decided or superseded, or is about to expire. */
export interface RequestNotice extends Notice {
  readonly status: "opened" | "decided" | "superseded" | "expiring"
  readonly request: Interruption
  /** Present if the status is `decided`. */
  readonly decision?: Decision
}

/** A run has ended. A held run has not. */
export interface RunEndNotice extends Notice {
  readonly status: "completed" | "cancelled" | "error"
  readonly usage: SessionUsage
  /** Present if the status is `cancelled`. */
  readonly reason?: string
  /** Present if the status is `error`. */
  readonly failure?: RunFailure
}

/** The configuration of a runtime, which can change between turns. */
export interface Configuration {
  /** The name of the capability profile. */
  readonly profile: string
  readonly mode: string
  /** The name of the agent's model profile; left out for the model client's default. */
  readonly model?: string
  /** The names of the tools that the model receives, including those that call sub-agents. */
  readonly tools: ReadonlyArray<string>
}

/** A runtime was reconfigured: its configuration before and after. */
export interface ReconfiguredNotice {
  readonly before: Configuration
  readonly after: Configuration
}
