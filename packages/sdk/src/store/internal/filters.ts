/**
 * What a store is asked for when it lists runs and requests.
 */
import type { RequestId, RunId, SessionId, Timestamp } from "../../domain/Id.ts"
import type { Kind } from "../../domain/Interruption.ts"
import type { Status } from "../../domain/RunState.ts"

/** Which ready runs to list. */
export interface ReadyFilter {
  /** Only runs of these agents. Default: of all. */
  readonly agents?: ReadonlyArray<string>
  /** At most this many. Default 100, at most 1,000. */
  readonly limit?: number
  /** Go on after this run of an earlier page. One that was deleted starts over. */
  readonly after?: RunId
}

/** Which requests to list. All conditions must hold. */
export interface PendingFilter {
  readonly runId?: RunId
  readonly sessionId?: SessionId
  readonly kind?: Kind
  readonly tool?: string
  /** Requests of this agent, anywhere in the path. */
  readonly agent?: string
  /** Asked before this time. */
  readonly askedBefore?: Timestamp
  /**
   * Expiring before this time. A request whose time is up is decided, so it is not listed otherwise; with a time that has
   * passed this finds the ones that nobody has worked on since.
   */
  readonly expiresBefore?: Timestamp
  /** At most this many, oldest first. Default 100, at most 1,000. */
  readonly limit?: number
  /** Go on after this request of an earlier page, whatever became of it. One that was deleted starts over. */
  readonly after?: RequestId
}

/** Which runs to list, newest first. */
export interface ListFilter {
  readonly sessionId?: SessionId
  readonly agent?: string
  readonly status?: Status
  /** At most this many. Default 100, at most 1,000. */
  readonly limit?: number
  /** Go on after this run of an earlier page. One that was deleted starts over. */
  readonly after?: RunId
}
