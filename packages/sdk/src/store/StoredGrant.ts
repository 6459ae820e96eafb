/**
 * Grants as a store keeps them: one row for each grant, however many runs, forks and processes have a copy of it in their states.
 *
 * @since 0.1.0
 */
import type { Grant } from "../domain/Grant.ts"
import type { GrantId, RunId, SessionId } from "../domain/Id.ts"

/** A grant, with the root run and the session in which it was given. */
export interface StoredGrant {
  readonly grant: Grant
  readonly runId: RunId
  readonly sessionId: SessionId
}

/** Selects grants, including revoked ones; a grant must meet all conditions. Results are ordered oldest first. */
export interface GrantFilter {
  readonly runId?: RunId
  readonly sessionId?: SessionId
  readonly grantId?: GrantId
  readonly tool?: string
  readonly agent?: string
  /** Page size. Default: 100. Above 1,000 counts as 1,000. */
  readonly limit?: number
  /** Cursor: the last grant of the previous page. If it was deleted, the list starts from the beginning. */
  readonly after?: GrantId
}
