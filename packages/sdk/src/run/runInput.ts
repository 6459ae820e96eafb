/**
 * What a run is started, continued, watched and stopped with.
 *
 * @since 0.1.0
 */
import type * as Cancellation from "../agent/Cancellation.ts"
import type { RunUpdate } from "../agent/RunUpdate.ts"
import type { ApprovalPolicy } from "../domain/ApprovalPolicy.ts"
import type { DecisionInput } from "../domain/Decision.ts"
import type { RunId, SessionId } from "../domain/Id.ts"
import type { Limits } from "../domain/Limits.ts"
import type { RunState } from "../domain/RunState.ts"
import type { Allotted } from "./internal/startOptions.ts"
import type { Prompt } from "./Mail.ts"
import type { Mailbox } from "./Mailbox.ts"

/** A new run. With a `state` that has ended, it goes on in that session. */
export interface StartInput extends Allotted {
  readonly prompt: Prompt
  readonly runId?: RunId
  readonly sessionId?: SessionId
  /** Changes to the agent's limits. */
  readonly limits?: Partial<Limits>
  /** Replaces the agent's approval policy. */
  readonly policy?: ApprovalPolicy
  /** The agent that answers: the runtime's own (the default), or one that it hands over to, at any remove. */
  readonly answeredBy?: string
}

/** A run to go on with. */
export interface ContinueInput extends Allotted {
  readonly state: RunState
  readonly decisions?: ReadonlyArray<DecisionInput>
  /** Of a held run: queued until its calls are settled. Of a run that has ended: a new run in its session. */
  readonly prompt?: Prompt
  /** Larger budgets for a run that has used up its own. Of a run that has ended: of the new run, beside what this one's caller gave. */
  readonly limits?: Partial<Limits>
  /**
   * Of a run that has ended: replaces the approval policy of the agent that answers. Default: the policy that the caller of this one
   * gave, if any.
   */
  readonly policy?: ApprovalPolicy
  /**
   * Of a run that has ended: the agent that answers. Default: the one that has the conversation. A run that has not ended
   * goes on with its own.
   */
  readonly answeredBy?: string
}

/** How a run is watched and stopped. */
export interface RunOptions {
  /** Told everything that happens, as it happens. Must return quickly and not throw. */
  readonly onUpdate?: (update: RunUpdate) => void
  readonly cancellation?: Cancellation.CancellationToken
  /** Through which a run that is not stored is reached while it is at work. */
  readonly mailbox?: Mailbox
}

export type { Leaving, Suspension } from "../agent/Cancellation.ts"
export type { Prompt } from "./Mail.ts"
