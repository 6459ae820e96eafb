/**
 * The inputs and options of the functions that start, continue, fork and recover stored runs.
 *
 * @since 0.1.0
 */
import type { Suspension } from "../agent/Cancellation.ts"
import type { ApprovalPolicy } from "../domain/ApprovalPolicy.ts"
import type { DecisionInput } from "../domain/Decision.ts"
import type { Limits } from "../domain/Limits.ts"
import type { RunContext } from "../domain/RunContext.ts"
import type { Allotted, Dequeued, Dispatched } from "../run/internal/startOptions.ts"
import type { Prompt } from "../run/Mail.ts"
import type { ContinueInput, RunOptions, StartInput } from "../run/runInput.ts"

/**
 * Input that starts a stored run; with the `sessionId` of a session that has runs, the next run of that session. The next run inherits the
 * conversation, and not the limits, the policy and the context that callers gave to earlier runs; a `StoredContinueInput` with a `message`
 * inherits these, too.
 */
export interface StoredStartInput extends StartInput, Dispatched {
  /** The run's id, so that a repeated start fails with `RunExists` instead of starting it twice. Default: a new id. */
  readonly runId?: string
  /**
   * The name of the agent that answers: the runtime's agent, or one that it hands over to, directly or through others. Default: the
   * agent that has the conversation, if it is one of these. If it is not, the runtime's agent answers in a new session and in a session of
   * another agent; in a session of the runtime's agent, the start fails with `AgentNotFound`.
   */
  readonly answeredBy?: string
  /**
   * Set it if the store may have lost an earlier run of this prompt with the same `runId`, because a backup older than that run was
   * restored. Each call with side effects, unless it is idempotent, is then in doubt before its first start: the tool's `reconcile`
   * determines the outcome, or an `inDoubt` request is opened.
   */
  readonly mayRepeat?: boolean
}

/** Input that continues a stored run. */
export interface StoredContinueInput extends Omit<ContinueInput, "state" | "prompt">, Dequeued {
  readonly runId: string
  /** Decisions to record first; if one is refused, none is recorded. Decisions that are already recorded are read from the store. */
  readonly decisions?: ReadonlyArray<DecisionInput>
  /**
   * A message of the user. For a run that has not ended: queued until its open calls are settled. For an ended run: starts the
   * session's next run.
   */
  readonly message?: Prompt
}

/** Option that suspends stored runs. */
export interface SuspensionOptions {
  /**
   * Stops driving runs without ending them, so that another process can resume them. `runPromptStored` and `forkRun` then fail with
   * `RunSuspended`; `recover` returns.
   */
  readonly suspension?: Suspension
  /** @deprecated Use `suspension`. */
  readonly leaving?: Suspension
}

/** Options of driving a stored run. */
export interface StoredRunOptions extends RunOptions, SuspensionOptions {}

/** Input of `forkRun`: the original, the revision, and how the fork continues. */
export interface ForkInput extends Allotted, Dispatched {
  readonly runId: string
  /**
   * The number of events of the original's own journal that the fork builds on, from 1; see `rewindPoints`. Default: the last revision
   * at which no call was open.
   */
  readonly revision?: number
  /** The message of the user that replaces what followed in the original. */
  readonly prompt: Prompt
  /** The fork's id, so that a repeated call fails with `RunExists` instead of forking twice. Default: a new id. */
  readonly newRunId?: string
  /** The fork's session, which must have no runs. Default: a new session. */
  readonly sessionId?: string
  /**
   * Changes to the agent's limits, field by field. Each replaces the change that the original's caller gave for that field; the caller's
   * other changes apply, too. The original's usage does not count against the fork's limits.
   */
  readonly limits?: Partial<Limits>
  /** The approval policy of the fork; see `StartInput`. Default: the policy that the original's caller gave, if any. */
  readonly policy?: ApprovalPolicy
  /** The context of the fork; see `StartInput`. Default: that of the original. */
  readonly context?: RunContext
  /**
   * The name of the agent that answers; see `StoredStartInput`. Default: the agent that had the conversation at that revision, if it is the
   * runtime's agent or one that it hands over to; otherwise as for a start.
   */
  readonly answeredBy?: string
}

/** Options of `recover`. */
export interface RecoverOptions extends Pick<RunOptions, "onUpdate">, SuspensionOptions {
  /** Maximum number of runs to drive. Outcomes with an `error` do not count. Default: 100. */
  readonly limit?: number
  /** Maximum number of runs to drive at the same time. Default: 10. */
  readonly concurrency?: number
}
