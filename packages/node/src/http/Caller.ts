/**
 * Callers: who sends a request, as the server has authenticated it. Nothing of a request's body changes it.
 *
 * @since 0.2.0
 */
import type { Principal } from "@fermata/sdk/domain/Principal"

/** The sender of a request. */
export interface Caller {
  /** The author of the caller's commands and decisions: a principal, or an unverified name. */
  readonly principal: string | Principal
  /**
   * The tenant. The caller then has a runtime with the others of the tenant, and only runs whose context has it exist for them. Absent: all
   * runs of the store.
   */
  readonly tenant?: string
  /** Refuses everything except reading. */
  readonly readOnly?: boolean
}

/** A caller with its token. */
export interface TokenHolder extends Caller {
  /** At least 32 characters from a random source. */
  readonly token: string
}
