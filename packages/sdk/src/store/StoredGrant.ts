/**
 * A grant as a store keeps it: one row, whichever runs, forks and processes have a copy of it in their states.
 *
 * @since 0.1.0
 */
import type { Grant } from "../domain/Grant.ts"
import type { GrantId, RunId, SessionId } from "../domain/Id.ts"

/** A grant, and the root run and session in which it was given. */
export interface StoredGrant {
  readonly grant: Grant
  readonly runId: RunId
  readonly sessionId: SessionId
}

/** Which grants to list, oldest first. All conditions must hold. */
export interface GrantFilter {
  readonly runId?: RunId
  readonly sessionId?: SessionId
  readonly grantId?: GrantId
  readonly tool?: string
  readonly agent?: string
  /** At most this many. Default 100, at most 1,000. */
  readonly limit?: number
  /** Go on after this grant of an earlier page. One that was deleted starts over. */
  readonly after?: GrantId
}
