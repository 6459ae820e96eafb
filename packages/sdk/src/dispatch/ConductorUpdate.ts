/**
 * What a conductor reports: what happens in its runs, what they ask, and how they stood when it was closed.
 *
 * @since 0.1.0
 */
import type { RunUpdate } from "../agent/RunUpdate.ts"
import type { RunId } from "../domain/Id.ts"
import type { Interruption } from "../domain/Interruption.ts"
import type { RunState } from "../domain/RunState.ts"
import type { HandleStatus } from "./AgentHandle.ts"

/** A request that waits, and the run that it stops. */
export interface InboxEntry {
  /** What is asked; `agentPath` names the agents from the root to the one that asks. */
  readonly request: Interruption
  /** The root run. `request.runId` may be a sub-agent's. */
  readonly runId: RunId
  readonly name: string | undefined
}

/** Something that has happened in one of the runs, or what a reader was too slow for. */
export type ConductorUpdate =
  | {
      readonly _tag: "update"
      readonly runId: RunId
      readonly name: string | undefined
      readonly update: RunUpdate
    }
  | { readonly _tag: "skipped"; readonly updates: number }

/** A run that was not over when its conductor was closed, and what became of it. */
export interface Drained {
  readonly runId: RunId
  readonly name: string | undefined
  /** `suspended`: it is in the store. `error`: it was not begun. `running`: it did not stop in time. */
  readonly status: HandleStatus
  /**
   * Of a run that was not stored, and held, waiting for the approval callback, or still to act on a decision: its state before it was
   * cancelled, with every decision and message that was acknowledged. `runPrompt` goes on with it.
   */
  readonly held?: RunState
}
