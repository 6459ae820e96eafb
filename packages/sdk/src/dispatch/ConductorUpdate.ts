/**
 * The updates, inbox entries and drained runs that a conductor reports.
 *
 * @since 0.1.0
 */
import type { RunUpdate } from "../agent/RunUpdate.ts"
import type { RunId } from "../domain/Id.ts"
import type { Interruption } from "../domain/Interruption.ts"
import type { RunState } from "../domain/RunState.ts"
import type { HandleStatus } from "./AgentHandle.ts"

/** An open request and the run that waits for it. */
export interface InboxEntry {
  /** The request; its `agentPath` names the agents from the root to the one that asks. */
  readonly request: Interruption
  /** The id of the root's run. `request.runId` may be a sub-agent's. */
  readonly runId: RunId
  /** The name under which the run was dispatched, if any. */
  readonly name: string | undefined
}

/** An update of one of the runs, or the number of updates that a slow reader missed. */
export type ConductorUpdate =
  | {
      readonly _tag: "update"
      readonly runId: RunId
      readonly name: string | undefined
      readonly update: RunUpdate
    }
  | { readonly _tag: "skipped"; readonly updates: number }

/** A run that had not ended when its conductor was drained. */
export interface Drained {
  readonly runId: RunId
  readonly name: string | undefined
  /**
   * The status after the drain. `suspended`: the run is in the store. `completed`, `cancelled`: it ended. `error`: it failed, or was not
   * started. Any other status: it did not stop in time.
   */
  readonly status: HandleStatus
  /**
   * The state of a run without a store that was held, waited for the approval callback, or had not yet acted on a decision. It is the state
   * before the run was cancelled, with every acknowledged decision and message. Pass it to `runPrompt` to resume the run.
   */
  readonly held?: RunState
}
