/**
 * What hooks are called with: facts about the runs of a runtime. `RuntimeHooks` exports all of it.
 */
import type * as Cause from "effect/Cause"
import type { Decision } from "../../domain/Decision.ts"
import type { RunId, SessionId, Timestamp, ToolCallId } from "../../domain/Id.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import type { ToolOutcome } from "../../domain/Message.ts"
import type { RunFailure } from "../../domain/RunError.ts"
import type { FinishReason } from "../../domain/RunEvent.ts"
import type { ModelUsage, SessionUsage } from "../../domain/Usage.ts"

/** Whose run it is: the root's, or a sub-agent's. */
export interface Notice {
  /** That of the run itself. */
  readonly runId: RunId
  readonly sessionId: SessionId
  /** Names of the agents from the root to this one. */
  readonly agentPath: ReadonlyArray<string>
  readonly at: Timestamp
}

/** A turn is over: the model was asked, and every call has its result. */
export interface TurnNotice extends Notice {
  /** From 1. */
  readonly turn: number
  readonly calls: ReadonlyArray<{
    readonly callId: ToolCallId
    readonly tool: string
    readonly outcome: ToolOutcome
  }>
  /** What the run has consumed until now. */
  readonly usage: SessionUsage
}

/** A model call that has neither an answer nor failed for good. */
interface Asked {
  /** That of the root's run. */
  readonly runId: RunId
  /** That of the run whose model it is: the root's, or a sub-agent's. */
  readonly agentRunId: RunId
  readonly agentPath: ReadonlyArray<string>
  readonly turn: number
}

/** A model was asked: it answered, or failed for good; or it is asked again, or in another way. */
export type ModelCallNotice =
  | (Notice & {
      readonly status: "answered"
      readonly turn: number
      readonly usage: ModelUsage
      readonly finishReason: FinishReason
      /** The model profile that answered, where the client says so. */
      readonly profile?: string
      /** Milliseconds since the run's event before: the call, what prepared it, and the attempts before it. */
      readonly ms?: number
    })
  | (Notice & { readonly status: "failed"; readonly turn: number; readonly reason: string })
  | (Asked & {
      readonly status: "retry"
      readonly attempt: number
      readonly waitMs: number
      readonly reason: string
    })
  | (Asked & { readonly status: "fallback"; readonly reason: string })

/** A call was started, or has its result. A sub-agent's run is a call of its parent's too. */
export interface ToolCallNotice extends Notice {
  readonly callId: ToolCallId
  readonly tool: string
  readonly status: "started" | ToolOutcome
  /** How often it was started. */
  readonly attempt: number
  /** Milliseconds since it was last started; left out for one that never was. */
  readonly ms?: number
  /**
   * How its code has failed, without secrets: what it failed with, threw or was rejected with, and where. Left out where the failure is not
   * one of code that ran in this process.
   */
  readonly cause?: Cause.Cause<unknown>
}

/** A request was made, was decided, no longer waits, or will soon expire. */
export interface RequestNotice extends Notice {
  readonly status: "opened" | "decided" | "superseded" | "expiring"
  readonly request: Interruption
  readonly decision?: Decision
}

/** A run is over. One that is held is not. */
export interface RunEndNotice extends Notice {
  readonly status: "completed" | "cancelled" | "error"
  readonly usage: SessionUsage
  /** Why it was cancelled. */
  readonly reason?: string
  readonly failure?: RunFailure
}

/** What a runtime works with. */
export interface Configuration {
  /** The name of the capability profile. */
  readonly profile: string
  readonly mode: string
  /** The model profile that the agent asks for; left out for the model client's default. */
  readonly model?: string
  /** Names of the tools that its model is shown, sub-agents included. */
  readonly tools: ReadonlyArray<string>
}

/** A runtime was reconfigured. */
export interface ReconfiguredNotice {
  readonly before: Configuration
  readonly after: Configuration
}
