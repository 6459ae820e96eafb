/**
 * Letting go of a stored run without ending it.
 *
 * @since 0.1.0
 */
import type * as Cancellation from "../agent/Cancellation.ts"

/** How a program that ends lets go of a stored run, so that another can go on with it. */
export interface Leaving {
  /** Begin nothing new. */
  readonly soon: Cancellation.CancellationToken
  /** Stop what is going on, too. */
  readonly now: Cancellation.CancellationToken
}
