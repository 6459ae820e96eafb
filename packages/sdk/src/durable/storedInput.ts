/**
 * What a stored run is started, continued, forked and recovered with.
 *
 * @since 0.1.0
 */
import type { Suspension } from "../agent/Cancellation.ts"
import type { ApprovalPolicy } from "../domain/ApprovalPolicy.ts"
import type { DecisionInput } from "../domain/Decision.ts"
import type { RunId, SessionId } from "../domain/Id.ts"
import type { Limits } from "../domain/Limits.ts"
import type { Allotted } from "../run/internal/startOptions.ts"
import type { Prompt } from "../run/Mail.ts"
import type { ContinueInput, RunOptions, StartInput } from "../run/runInput.ts"

/** A new run; with a `sessionId`, the next one of that session. */
export interface StoredStartInput extends StartInput {
  /** A name for the run, so that a start that is tried again does not start it twice. Default: made. */
  readonly runId?: RunId
  /**
   * The agent that answers: the runtime's own, or one that it hands over to, at any remove. Default: the one that has the session, if it
   * is one of these; else the runtime's own.
   */
  readonly answeredBy?: string
  /**
   * Set when the prompt may have been run before, under the same `runId`, in a store that lost it: a backup older than the run was
   * restored. Each side effect is then in doubt before its first start: the tool's `reconcile` is asked, or an `inDoubt` request opened.
   */
  readonly mayRepeat?: boolean
}

/** A stored run to go on with. */
export interface StoredContinueInput extends Omit<ContinueInput, "state" | "prompt"> {
  readonly runId: RunId
  /** Decisions to take first. Those that were taken already, by anybody, are found in the store. */
  readonly decisions?: ReadonlyArray<DecisionInput>
  /** What the user says to the run. Held: queued until its calls are settled. Ended: a new run in its session. */
  readonly message?: Prompt
}

/** How stored runs are suspended. */
export interface SuspensionOptions {
  /** Stops the work on a run without ending it: `RunSuspended`. */
  readonly suspension?: Suspension
  /** @deprecated Use `suspension`. */
  readonly leaving?: Suspension
}

/** How a stored run is watched, cancelled and suspended. */
export interface StoredRunOptions extends RunOptions, SuspensionOptions {}

/** Where to fork, and how to go on from there. */
export interface ForkInput extends Allotted {
  readonly runId: RunId
  /**
   * The last event that the fork shares with the run: its place in the run's own journal, from 1; see `rewindPoints`.
   * Default: the last one at which no call was open.
   */
  readonly revision?: number
  /** What the user says instead of what followed. */
  readonly prompt: Prompt
  /** A name for the fork, so that one that is tried again is not made twice. Default: made. */
  readonly newRunId?: RunId
  /** A session that has no runs. Default: made. */
  readonly sessionId?: SessionId
  /**
   * Changes to the limits: to the agent's, and to what the caller of the original has changed of them. What the original has spent does
   * not count against them.
   */
  readonly limits?: Partial<Limits>
  /** Replaces the agent's approval policy. Default: the policy that the caller of the original has given, if any. */
  readonly policy?: ApprovalPolicy
  /** The agent that answers; see `StoredStartInput`. Default: the one that had the conversation at that moment. */
  readonly answeredBy?: string
}

/** How runs are taken up. */
export interface RecoverOptions extends Pick<RunOptions, "onUpdate">, SuspensionOptions {
  /** At most this many runs; those that cannot be taken up do not count. Default 100. */
  readonly limit?: number
  /** Runs at the same time. Default 10. */
  readonly concurrency?: number
}
