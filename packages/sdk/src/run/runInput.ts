/**
 * The inputs and options of the functions that start and continue runs.
 *
 * @since 0.1.0
 */
import type * as Cancellation from "../agent/Cancellation.ts"
import type { RunUpdate } from "../agent/RunUpdate.ts"
import type { ApprovalPolicy } from "../domain/ApprovalPolicy.ts"
import type { DecisionInput } from "../domain/Decision.ts"
import type { Limits } from "../domain/Limits.ts"
import type { RunContext } from "../domain/RunContext.ts"
import type { RunState } from "../domain/RunState.ts"
import type { Allotted, PolicyAtStart } from "./internal/startOptions.ts"
import type { Prompt } from "./Mail.ts"
import type { Mailbox } from "./Mailbox.ts"

/** Input that starts a run. */
export interface StartInput extends Allotted, PolicyAtStart {
  readonly prompt: Prompt
  /**
   * The run's id: 1 to 128 letters, digits, `_`, `.`, `:` or `-`, and of no form that Fermata derives (`.t1.1` inside, `.r1` at the end).
   * Default: a new id.
   */
  readonly runId?: string
  /** The id of the run's session, of the same form. Default: a new session. */
  readonly sessionId?: string
  /** Changes to the limits that the agent and the capability profile set, field by field. Default: none. */
  readonly limits?: Partial<Limits>
  /**
   * Replaces the approval policies of the runtime's agent and of the capability profile. Other agents that act in the run are bound by it
   * in addition to their own policies; the strictest verdict counts. Default: each agent's own policy, or that of the profile.
   */
  readonly policy?: ApprovalPolicy
  /**
   * The context of the run: a JSON object of at most 16,384 characters, such as `{ tenant: "acme", user: "u_7" }`. It is stored with the run
   * and passed to handlers, instructions and approval rules, also in other processes, and not to the model; see `RunContext`. Default: empty.
   */
  readonly context?: RunContext
  /** The name of the agent that answers: the runtime's agent (default), or one that it hands over to, directly or through others. */
  readonly answeredBy?: string
}

/**
 * Input that continues a run from its state. If the run has ended and a `prompt` is given, it starts the next run of the session instead.
 */
export interface ContinueInput extends Allotted, PolicyAtStart {
  readonly state: RunState
  /** Decisions on the run's open requests. All are checked before any of them is taken. */
  readonly decisions?: ReadonlyArray<DecisionInput>
  /** For a run that has not ended: a message, queued until its open calls are settled. For an ended run: starts the session's next run. */
  readonly prompt?: Prompt
  /**
   * Changes to the run's limits, field by field, such as a larger budget. If a next run starts: changes to its agent's limits. Each
   * replaces the change that the ended run's caller gave for that field; the caller's other changes apply, too.
   */
  readonly limits?: Partial<Limits>
  /**
   * The approval policy of the next run; see `StartInput`. Default: the policy that the ended run's caller gave, if any. Refused with
   * `PolicyFixed` if no next run starts.
   */
  readonly policy?: ApprovalPolicy
  /**
   * The context of the next run; see `StartInput`. Default: that of the ended run. Refused with `OptionsInvalid` if no next run starts: a
   * run keeps its context.
   */
  readonly context?: RunContext
  /**
   * The name of the agent that answers in the next run. Default: the agent that has the conversation. If no next run starts, only that
   * agent's name is accepted.
   */
  readonly answeredBy?: string
}

/** Options of driving a run. */
export interface RunOptions {
  /** Called synchronously with every update of the run and of its sub-agents. It must return quickly; if it throws, the run continues. */
  readonly onUpdate?: (update: RunUpdate) => void
  /** Cancels the run while it is driven; a dispatched run, also while it is held. Default: the fiber's `CancellationToken`. */
  readonly cancellation?: Cancellation.CancellationToken
  /** Delivers decisions and messages to a run without a store while it is driven. A stored run ignores it: its mail is in the store. */
  readonly mailbox?: Mailbox
}

export type { Leaving, Suspension } from "../agent/Cancellation.ts"
export type { Prompt } from "./Mail.ts"
