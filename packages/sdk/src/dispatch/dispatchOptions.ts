/**
 * The options of background runs and of conductors.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type * as Agent from "../agent/Agent.ts"
import type { RunOptions } from "../run/runInput.ts"
import type { SharedLimits } from "./internal/conductor/Ledger.ts"
import type { Restart } from "./internal/handle/restart.ts"

/** The options of `dispatchPrompt`. */
export interface DispatchOptions extends Pick<RunOptions, "onUpdate" | "cancellation"> {
  /** The name of the run, which its handle shows. Names need not be unique. Default: none. */
  readonly name?: string
  /** How often, and after which delays, a run that failed with a retryable `ModelFailed` is resumed. Default: never. */
  readonly restart?: Restart
  /** The number of events that are kept for readers that start late. Default: 64. */
  readonly keepEvents?: number
}

/** The options of `dispatchPromptStored`. */
export interface StoredDispatchOptions extends Omit<DispatchOptions, "keepEvents"> {
  /**
   * What happens to the run when the scope, or the `Fermata`, closes. `suspend` (the default; `letGo` is its deprecated name): another
   * process can resume the run; its running operations may finish within 2 seconds, in a `Fermata` within its `drainTimeout`. `cancel`: the
   * run is cancelled, also while it is held.
   */
  readonly onClose?: "suspend" | "cancel" | "letGo"
}

/** The options of `attach`. */
export interface AttachOptions<Output = unknown> extends StoredDispatchOptions {
  /** The agent with which the run was started, which types the output. A run of another agent is refused with `AgentNotFound`. */
  readonly agent?: string | Agent.Agent<any, Output>
}

/** The options of a conductor. */
export interface ConductorOptions {
  /**
   * The name of the conductor, which is stored with its runs. With `adopt`, a conductor of the same name finds them after a restart. Default:
   * `default`.
   */
  readonly name?: string
  /** The number of slots: how many runs may be running at the same time. Held runs do not count. Default: 10. */
  readonly concurrency?: number
  /**
   * What `dispatch` does when all slots are taken. `queue` (the default): it returns the handle of a queued run. `block`: it waits for a
   * slot. `reject`: it fails with `ConductorFull`.
   */
  readonly overflow?: "queue" | "block" | "reject"
  /** With `queue`, how many runs may wait for their first slot; one more fails with `ConductorFull`. Default: 10,000. */
  readonly maxQueued?: number
  /** The budgets that the runs share. Default: unlimited. */
  readonly limits?: SharedLimits
  /** The `restart` of runs that are dispatched or attached without their own. Default: never. */
  readonly restart?: Restart
  /**
   * How long a drain may take, at most 5 seconds. Default: 5 seconds; for a conductor of a `Fermata`, twice the Fermata's `drainTimeout`.
   */
  readonly drainTimeout?: Duration.Input
}

/** The options of a conductor's `dispatch`. */
export interface ConductOptions extends DispatchOptions {
  /** The name of the run, a path such as `research/eu`: `cancel("research")` cancels it with all others under `research`. */
  readonly name?: string
}
