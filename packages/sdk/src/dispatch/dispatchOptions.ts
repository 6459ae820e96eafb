/**
 * What runs in the background, and a conductor, are given besides what to run.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type { RunOptions } from "../run/runInput.ts"
import type { SharedLimits } from "./internal/conductor/Ledger.ts"
import type { Restart } from "./internal/handle/restart.ts"

/** How a run in the background is watched, named and tried again. */
export interface DispatchOptions extends Pick<RunOptions, "onUpdate" | "cancellation"> {
  /** A name that distinguishes it from others. */
  readonly name?: string
  /** Goes on with a run that has failed in a way that may pass. Default: it stays failed. */
  readonly restart?: Restart
  /** Events that are kept for who begins to read late. Default 64. */
  readonly keepEvents?: number
}

/** How a stored run in the background is watched, named, tried again and left. */
export interface StoredDispatchOptions extends Omit<DispatchOptions, "keepEvents"> {
  /**
   * What becomes of the run when the scope closes. `suspend` (the default; `letGo` is its deprecated name): it is in the store as it
   * stands, for the next process; what goes on gets 2 seconds to come to an end. `cancel`: it ends.
   */
  readonly onClose?: "suspend" | "cancel" | "letGo"
}

/** How a conductor works. */
export interface ConductorOptions {
  /** Runs at work at the same time. Held ones do not count. Default 10. */
  readonly concurrency?: number
  /**
   * What happens when all slots are taken. `queue` (the default): `dispatch` returns a handle that waits. `block`: `dispatch` itself
   * waits. `reject`: it fails with `ConductorFull`.
   */
  readonly overflow?: "queue" | "block" | "reject"
  /** With `queue`, runs that may wait for their first slot; one more is rejected. Default: 10,000. */
  readonly maxQueued?: number
  /** What the runs may consume together. */
  readonly limits?: SharedLimits
  /** Goes on with runs that have failed in a way that may pass. Default: they stay failed. */
  readonly restart?: Restart
  /**
   * How long closing may take; at most 5 seconds, which is the default. Of a `Fermata`, the default is twice its own
   * `drainTimeout`.
   */
  readonly drainTimeout?: Duration.Input
}

/** What a run is called, and how it is watched and tried again. */
export interface ConductOptions extends DispatchOptions {
  /** A path of names, such as `research/eu`: `cancel("research")` ends it with all others under `research`. */
  readonly name?: string
}
