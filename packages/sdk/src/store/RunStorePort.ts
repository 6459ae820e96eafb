/**
 * The port that every run store implements; `RunStore` is its service.
 *
 * @since 0.1.0
 */
import type * as Arr from "effect/Array"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { Decision, DecisionToRecord } from "../domain/Decision.ts"
import type { GrantNotFound, Revocation, Revoked } from "../domain/Grant.ts"
import type { GrantId, RequestId, Revision, RunId, SessionId, Timestamp } from "../domain/Id.ts"
import type { Interruption, Kind } from "../domain/Interruption.ts"
import type { Rejection } from "../domain/Rejection.ts"
import type { RunEnded, SessionBusy } from "../domain/RunError.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { Status } from "../domain/RunState.ts"
import type { BlobPort } from "./BlobPort.ts"
import type { MemoryPort, MemoryRow } from "./MemoryPort.ts"
import type {
  LeaseLost,
  MessageInvalid,
  RunBusy,
  RunConflict,
  RunContinued,
  RunExists,
  RunNotFound,
  RunRemoved,
  RunStoreError
} from "./RunStoreError.ts"
import type { MessageInput, Receipt, SentMessage } from "./SentMessage.ts"
import type { GrantFilter, StoredGrant } from "./StoredGrant.ts"

/**
 * The exclusive right to drive one run until a given time. Every write to the journal carries `epoch`, which grows with each claim; a write
 * with an earlier epoch is refused.
 */
export interface Lease {
  readonly runId: RunId
  readonly owner: string
  readonly epoch: number
  /** The time at which the lease ends unless it is renewed, by the store's clock. */
  readonly until: Timestamp
}

/** What a store returns about a run without reading its journal. */
export interface RunHead {
  readonly runId: RunId
  readonly sessionId: SessionId
  /** Name of the root agent with which the run was started, also after a handoff. A runtime of this agent resumes the run. */
  readonly agent: string
  /** Name of the agent that has the conversation, if a handoff made it another one. */
  readonly answeredBy?: string
  readonly status: Status
  readonly revision: Revision
  readonly parent?: { readonly runId: RunId; readonly revision: Revision }
  readonly createdAt: Timestamp
  readonly updatedAt: Timestamp
  /** The reason of a cancellation request. Absent once the run is completed or cancelled; kept for a failed run, which can be resumed. */
  readonly cancelReason?: string
  /** The lease in force, while a process owns the run. */
  readonly lease?: { readonly owner: string; readonly until: Timestamp }
}

/**
 * A checkpoint to store: a session's state at some revision of a run, as texts. The store keeps the texts unread and compares only
 * `version`.
 */
export interface NewCheckpoint {
  readonly version: number
  /** The checkpoint that contains the preceding chunks, and the number of its chunks that precede these. */
  readonly base?: { readonly runId: RunId; readonly chunks: number }
  /** Texts that never change, so that later checkpoints refer to them instead of storing them again. */
  readonly chunks: ReadonlyArray<string>
  /** The part of the state that changes, as one text. */
  readonly state: string
}

/** A stored checkpoint, with the chunks of the checkpoints that it builds on. */
export interface Checkpoint extends Omit<NewCheckpoint, "base"> {
  readonly runId: RunId
  readonly revision: Revision
  /** All chunks, oldest first. */
  readonly chunks: ReadonlyArray<string>
}

/** A run with its events and its mail, as returned by `load`. */
export interface StoredRun {
  readonly head: RunHead
  /** The checkpoint of the run, or of a run that it builds on; set if `load` asked for one and one exists. */
  readonly checkpoint?: Checkpoint
  /**
   * The events from which the run's state is folded, oldest first: those of the runs that it builds on, then its own. With a
   * checkpoint, only the events after it.
   */
  readonly events: ReadonlyArray<RunEvent>
  /** Decisions that the journal does not contain yet, oldest first. An expired request counts as decided by `expiry`. */
  readonly decisions: ReadonlyArray<Decision>
  /** Messages that the journal does not contain, oldest first. */
  readonly messages: ReadonlyArray<SentMessage>
}

/** The result of an append. */
export interface Appended {
  readonly revision: Revision
  /** The reason, if cancellation of the run was requested. */
  readonly cancelReason?: string
  /** Set when there are recorded decisions, or messages, that the journal does not contain yet. An expiry does not count. */
  readonly hasMail?: boolean
  /** The revocations, if a grant that the events rely on was revoked. Then nothing was written and `revision` is unchanged. */
  readonly revoked?: ReadonlyArray<Revoked>
}

/** What a store reports to the process that drives a run: that cancellation was requested, or that there is mail. */
export interface RunNotice {
  readonly runId: RunId
  /** The reason, if cancellation of the run was requested, and the run is running or held. */
  readonly cancelReason?: string
  /** Set when there are recorded decisions, or messages, that the journal does not contain yet. An expiry does not count. */
  readonly hasMail?: boolean
}

/** A request, as an element of the inbox. */
export interface PendingRequest {
  readonly request: Interruption
  /** The root run: pass this id to resume. `request.runId` may be a sub-agent's run. */
  readonly runId: RunId
  readonly sessionId: SessionId
  /** Name of the agent with which the root run was started. */
  readonly agent: string
}

/** A run with a part that cannot be read. */
export interface DamagedRun {
  /** The run's id, or a text in its place if the id cannot be read either. */
  readonly runId: string
  /** A sentence that says what cannot be read and what to do. */
  readonly problem: string
}

/** A run that a worker has to drive, and the reason. */
export interface ReadyRun {
  readonly runId: RunId
  /** Name of the root agent. */
  readonly agent: string
  /**
   * The first that applies, for a run whose lease no process owns. `orphaned`: the run is running, also if it was submitted and not driven
   * yet. The other reasons apply to held runs. `cancelled`: cancellation was requested. `decided`: a decision is not in the journal yet.
   * `message`: a message is not in the journal yet. `expired`: a request has expired. `expiring`: a request will expire soon, and the
   * warning event is not in the journal yet.
   */
  readonly reason: "orphaned" | "cancelled" | "decided" | "message" | "expired" | "expiring"
  /** The cursor of the next page, on the last run of a full page. */
  readonly cursor?: string
}

/** A run of another store, to restore. */
export interface RestoredRun extends Pick<
  RunHead,
  "agent" | "cancelReason" | "parent" | "runId" | "sessionId" | "status"
> {
  /** The events that the next run of the archive builds on; for the last run, all its events. */
  readonly events: Arr.NonEmptyReadonlyArray<RunEvent>
  /**
   * The run's events after `events`. If they were not copied, a single `run.cancelled` whose reason says so; a later `restore` may
   * replace that copy by the whole run.
   */
  readonly rest?: ReadonlyArray<RunEvent>
  /** Decisions on the run's requests that its events do not contain. */
  readonly decisions?: ReadonlyArray<Decision>
  /** Messages to the run that its events do not contain. */
  readonly messages?: ReadonlyArray<SentMessage>
}

/** Selects ready runs. */
export interface ReadyFilter {
  /** Names of root agents. Default: all agents. */
  readonly agents?: ReadonlyArray<string>
  /** Page size. Default: 100. Above 1,000 counts as 1,000. */
  readonly limit?: number
  /**
   * The `cursor` of the previous page. The id of its last run is accepted too: the store then reads the previous pages again, or starts from
   * the beginning if this run is no longer ready.
   */
  readonly after?: string
}

/** Selects the times at which held runs become ready by themselves. */
export interface DueFilter {
  /** Names of root agents. Default: all agents. */
  readonly agents?: ReadonlyArray<string>
  /** Selects later times than this one. Default: all times. */
  readonly after?: Timestamp
}

/**
 * Selects open requests, oldest first; a request must meet all conditions. Expired requests are left out, unless `expiresBefore` is given.
 * The list has one page of `limit` requests; `after` selects the next one.
 */
export interface PendingFilter {
  /** A run, with the sub-agents inside it; or the run of a sub-agent, with those inside that one. */
  readonly runId?: RunId
  readonly sessionId?: SessionId
  /** A kind, or a list of kinds that is not empty. */
  readonly kind?: Kind | ReadonlyArray<Kind>
  readonly tool?: string
  /** Name of an agent anywhere in the request's agent path. */
  readonly agent?: string
  /** Selects requests that were opened before this time. */
  readonly askedBefore?: Timestamp
  /**
   * Selects requests whose `expiresAt` is before this time, including expired ones whose decision by `expiry` no process has recorded yet.
   * Without this condition, expired requests are not listed.
   */
  readonly expiresBefore?: Timestamp
  /** Page size. Default: 100. Above 1,000 counts as 1,000. */
  readonly limit?: number
  /** Cursor: the last request of the previous page, open or not. If it was deleted, the list starts from the beginning. */
  readonly after?: RequestId
}

/** Selects runs; a run must meet all conditions. Results are ordered newest first. */
export interface ListFilter {
  /** Selects these runs; a list of more than 1,000 is refused. `limit` applies as well. Default: all runs. */
  readonly runIds?: ReadonlyArray<RunId>
  readonly sessionId?: SessionId
  readonly agent?: string
  readonly status?: Status
  /** Page size. Default: 100. Above 1,000 counts as 1,000. */
  readonly limit?: number
  /** Cursor: the last run of the previous page. If it was deleted, the list starts from the beginning. */
  readonly after?: RunId
}

/** What a store returns about a session: its last run, without reading a journal. */
export interface SessionHead {
  readonly sessionId: SessionId
  /** The head of the session's last run, whose status and time of the last change are the session's. */
  readonly last: RunHead
  /** When the session's first run was stored. */
  readonly createdAt: Timestamp
}

/** Selects sessions by their last run, which must meet all conditions. Results are ordered by the start of that run, newest first. */
export interface SessionFilter {
  /** Name of the agent with which the last run was started. */
  readonly agent?: string
  /** Status of the last run. */
  readonly status?: Status
  /** Page size. Default: 100. Above 1,000 counts as 1,000. */
  readonly limit?: number
  /** Cursor: the last run of the last session of the previous page. If it was deleted, the list starts from the beginning. */
  readonly after?: RunId
}

/** A signal about a run from another process: the revision after a commit, a text that was sent, or neither if the run has to be read. */
export interface RunSignal {
  readonly revision?: number
  readonly text?: string
}

/** Sends texts about one run to the processes that watch it. */
export interface RunPublisher {
  /** Whether another process watches the run. Must be cheap, because it is called for each update. */
  readonly isWatched: () => boolean
  /** Sends a text of at most `maxTextBytes` bytes. Does not wait; a text that cannot be sent is lost. */
  readonly send: (text: string) => void
}

/** Passes transient texts, and notices of commits to a run's journal, on to the processes that watch the run. */
export interface RunBroadcast {
  readonly maxTextBytes: number
  /** Makes the publisher of a run that this process drives, and begins to listen for watchers. */
  readonly publisher: (runId: RunId) => RunPublisher
  /**
   * Announces to the other processes that this one watches a run, and calls `listener` with their signals, in order. Returns a function that
   * ends the watch. A signal can be lost, so poll the run's head as well.
   */
  readonly watch: (runId: RunId, listener: (signal: RunSignal) => void) => () => void
}

/**
 * The operations of a run store. Each effect can also fail with `RunStoreError`, which their lists of errors do not repeat.
 * `RunStoreContract` tests an implementation; `RunStore.fromCore` derives what one leaves out.
 */
export interface RunStorePort {
  /**
   * Stores a new run with its first events and returns its lease.
   *
   * **Errors**
   *
   * - `RunExists` — resume that run, or choose another id.
   * - `SessionBusy` — another run has this position in the session: it also follows `parent`, or it is the session's first run, if
   *   `parent` is absent or in another session (a fork). Or `parent`, in the same session, has not ended, or has more events than
   *   `parent.revision`. Wait, then read the session again.
   * - `RunRemoved` — `parent` does not exist, has fewer events than `parent.revision`, or was replaced since it was read. Read the session
   *   again, and start again.
   */
  readonly create: (
    options: Pick<RunHead, "agent" | "runId" | "sessionId" | "status"> & {
      /** `createdAt` is the value in the parent's head when it was read; a parent that was created or replaced later is refused. */
      readonly parent?: NonNullable<RunHead["parent"]> & { readonly createdAt?: Timestamp }
      /** The checkpoint of `parent` at `parent.revision`, to store with the new run. */
      readonly checkpoint?: NewCheckpoint
      readonly events: Arr.NonEmptyReadonlyArray<RunEvent>
      readonly owner: string
      readonly ttl: Duration.Input
      /** Set if the process releases the lease at once and leaves the run to a worker: only then can it be part of a caller's transaction. */
      readonly unattended?: boolean
    }
  ) => Effect.Effect<Lease, RunExists | RunRemoved | SessionBusy | RunStoreError>

  /**
   * Appends events, all or none, and returns the new revision.
   *
   * **Details**
   *
   * `expected` is the revision that the caller read: the number of the run's own stored events. `status` becomes the status of the head.
   * The same transaction updates the inbox with the requests that the events open or close, also inside sub-agents, and marks the
   * messages that the events contain (`message.queued` with a `messageId`) as read. If `status` is an end, it closes all open requests.
   * `grants` are the grants that allow the calls which the events start. If one of them was revoked, nothing is written, and the result
   * contains the revocations. A revocation that is acknowledged later came after the start of the calls.
   *
   * **Errors**
   *
   * - `RunConflict` — another writer appended first, or the events contain a decision that differs from the stored one, the withdrawal of
   *   a decided request, a message that the journal already contains, or an end of the run that omits a decision. Load the run, decide
   *   again, retry.
   * - `LeaseLost` — the lease is not in force; stop working on the run.
   * - `SessionBusy` — the events resume a run that had ended, and the next run of the session builds on that end.
   */
  readonly append: (options: {
    readonly lease: Lease
    readonly expected: Revision
    readonly events: Arr.NonEmptyReadonlyArray<RunEvent>
    readonly status: Status
    readonly grants?: ReadonlyArray<StoredGrant>
    /** Rows of memory to store with the events, for a store with `memory`. */
    readonly memory?: ReadonlyArray<MemoryRow>
  }) => Effect.Effect<Appended, RunConflict | LeaseLost | SessionBusy | RunStoreError>

  /**
   * Appends events like `append` and releases the lease in the same transaction.
   *
   * **Details**
   *
   * If there is a decision or a message that the events and the journal do not contain, an expired request, or a cancellation request,
   * nothing is written, the lease stays, and `parked` is false. One transaction checks and releases, so none of these can be missed in
   * between.
   *
   * **Errors**
   *
   * - Those of `append`.
   */
  readonly park: (options: {
    readonly lease: Lease
    readonly expected: Revision
    readonly events: Arr.NonEmptyReadonlyArray<RunEvent>
    readonly status: Status
    /** The checkpoint of the run after these events. */
    readonly checkpoint?: NewCheckpoint
    /** As for `append`. */
    readonly memory?: ReadonlyArray<MemoryRow>
  }) => Effect.Effect<
    { readonly parked: boolean; readonly revision: Revision },
    RunConflict | LeaseLost | SessionBusy | RunStoreError
  >

  /**
   * Stores copies of runs from another store, all or none.
   *
   * **Details**
   *
   * `runs` are ordered oldest first, and each builds on the one before. `decisions` and `messages` are the mail of the last run. Stored
   * copies have no lease.
   *
   * If this store already has one of the runs, that run stays unchanged if the next run can build on it. A stored copy is replaced by the
   * given one if no process has claimed the stored one, the given journal begins with the stored events, and no run builds on more than
   * these. Archives can therefore arrive in any order. The replaced run gets a new `createdAt` and keeps the decisions and messages
   * that this store acknowledged; if they do not fit, the copy is refused. The last run may be in this store only as such a copy. If both
   * copies are the same, nothing changes. No run of the chain can be removed during the operation.
   *
   * A grant that one of these runs gave is revoked in this store if a journal says so, or if it is revoked in `revoked`, the other store's
   * rows. Rows of grants that no run of the chain gave are ignored. A grant that was revoked in this store before its run was deleted is
   * stored again, as revoked. For a run that a process of this store has claimed, only grants that this store has are revoked.
   *
   * If the runs are refused, the grants of those runs that this store has are revoked before the error is returned, and `revoked` in
   * the error lists the ones that are revoked now. Nothing else is written. A stored run counts as a given one if its session, agent,
   * parent and first event are the same.
   *
   * **Errors**
   *
   * - `RunExists` — this store has the last run, or has another one of the runs in a form on which the next run cannot build; `archive` says
   *   how the two relate, and `revoked` lists the grants.
   * - `SessionBusy` — another run has a position in a session that one of the runs needs; with `archived` and `revoked`.
   */
  readonly restore: (
    runs: Arr.NonEmptyReadonlyArray<RestoredRun>,
    decisions: ReadonlyArray<Decision>,
    messages: ReadonlyArray<SentMessage>,
    revoked?: ReadonlyArray<StoredGrant>
  ) => Effect.Effect<void, RunExists | SessionBusy | RunStoreError>

  /**
   * Reads a run with its events, decisions and messages.
   *
   * **Details**
   *
   * With `checkpointVersion`, the result has the newest checkpoint of that version and only the events after it. If there is no such
   * checkpoint, or a part of it is missing, the result has all events.
   */
  readonly load: (
    runId: RunId,
    options?: { readonly checkpointVersion?: number }
  ) => Effect.Effect<StoredRun, RunNotFound | RunStoreError>

  /** Reads the run's own events, oldest first, from the revision `from` (default: 0), at most `limit` (default: all). */
  readonly events: (
    runId: RunId,
    options?: { readonly from?: number; readonly limit?: number }
  ) => Effect.Effect<ReadonlyArray<RunEvent>, RunNotFound | RunStoreError>

  /** Reads the head of a run, without its journal. */
  readonly head: (runId: RunId) => Effect.Effect<RunHead, RunNotFound | RunStoreError>

  /**
   * Takes the lease of a run that no process owns, or whose lease has expired; also of a run that has ended.
   *
   * **Details**
   *
   * A run can also be claimed if its lease ends later than twice its own length from now: the clock was set back since.
   *
   * **Errors**
   *
   * - `RunNotFound` — check the id.
   * - `RunBusy` — a process owns the run, possibly under the same `owner`; wait, or try again after `until`.
   */
  readonly claim: (options: {
    readonly runId: RunId
    readonly owner: string
    readonly ttl: Duration.Input
  }) => Effect.Effect<Lease, RunNotFound | RunBusy | RunStoreError>

  /**
   * Extends a lease that is still in force to `ttl` from now; also returns what an append returns about cancellation and mail. A lease that
   * is no longer in force fails with `LeaseLost`.
   */
  readonly renew: (
    lease: Lease,
    ttl: Duration.Input
  ) => Effect.Effect<{ readonly lease: Lease } & Omit<Appended, "revision">, LeaseLost | RunStoreError>

  /**
   * Returns what `renew` reports, for those of up to 1,000 runs about which there is something to report; unknown runs are left out. A store
   * without it makes a process read the mail of each run that it drives after each notification of `changes`, and a cancellation that
   * another process requests stops a run at its next commit or renewal.
   */
  readonly notices?: (runIds: ReadonlyArray<RunId>) => Effect.Effect<ReadonlyArray<RunNotice>, RunStoreError>

  /** Releases a lease. Releasing a lease that was lost has no effect. */
  readonly release: (lease: Lease) => Effect.Effect<void, RunStoreError>

  /**
   * Records a decision on a request. Each request is decided once; the first decision wins.
   *
   * **Details**
   *
   * It needs no lease; the run's current or next owner reads the decision. A repetition of the recorded decision with its
   * `idempotencyKey` succeeds and returns the recorded one. If the request's `expiresAt` has passed and its `onExpiry` is not `stay`, the
   * store records the decision by `expiry` and refuses a late one with `AlreadyDecided`. Requests of a run or sub-agent whose cancellation
   * was acknowledged are refused with `RequestSuperseded`.
   *
   * The store does not check edited `arguments`, because it does not know the tool; `decideStored` checks them.
   *
   * **Errors**
   *
   * - `RequestNotFound`, `AlreadyDecided` (with the decision that counts), `RequestSuperseded`, `ArgumentsChanged`,
   *   `DecisionNotApplicable`, `GrantRefused`, `DecisionMalformed`.
   */
  readonly decide: (
    decision: DecisionToRecord
  ) => Effect.Effect<{ readonly runId: RunId; readonly decision: Decision }, Rejection | RunStoreError>

  /**
   * Records several decisions in one transaction, all or none, and returns what `decide` returns for each, in the same order.
   *
   * **Details**
   *
   * The requests may belong to different runs. If one decision is refused, nothing is written, not even an expiry. As with `decide`, a
   * decision that repeats the recorded one with its `idempotencyKey` is accepted. Two decisions on one request are refused unless the
   * second repeats the first in this way.
   *
   * **Errors**
   *
   * - Those of `decide`; the error names the request.
   */
  readonly decideAll: (
    decisions: ReadonlyArray<DecisionToRecord>
  ) => Effect.Effect<
    ReadonlyArray<{ readonly runId: RunId; readonly decision: Decision }>,
    Rejection | RunStoreError
  >

  /**
   * Lists the decisions that a run's journal does not contain yet, oldest first. An expired request counts as decided by `expiry`. Empty for
   * an unknown run.
   */
  readonly decisions: (runId: RunId) => Effect.Effect<ReadonlyArray<Decision>, RunStoreError>

  /**
   * Lists grants, oldest first, including revoked ones.
   *
   * **Details**
   *
   * A grant that cannot be read is left out (see `damaged`), but fails with `StoreUnreadable` if the filter names its id or its run. An
   * append that relies on it counts it as revoked.
   */
  readonly grants: (filter?: GrantFilter) => Effect.Effect<ReadonlyArray<StoredGrant>, RunStoreError>

  /**
   * Revokes a grant and returns it. Afterwards no call starts under it, in any run, fork or process.
   *
   * **Details**
   *
   * It needs no lease. The first revocation wins. `given` is the grant from a run's state; the store inserts it first if it has no row of
   * it, because an earlier version recorded the decision.
   *
   * **Errors**
   *
   * - `GrantNotFound` — call `grants` for the ids that exist.
   */
  readonly revokeGrant: (options: {
    readonly grantId: GrantId
    readonly revocation: Revocation
    readonly given?: StoredGrant
  }) => Effect.Effect<StoredGrant, GrantNotFound | RunStoreError>

  /**
   * Sends a message to a run, once per `messageId`. A repeated `send` returns the receipt of the first.
   *
   * **Details**
   *
   * It needs no lease; the run's current or next owner appends the message to the journal, as `message.queued` with its id. `to` must be
   * the id of a sub-agent's run in this run; the store checks the form of the id, and not that the sub-agent exists. A failed run accepts
   * only messages with `ends`, which wait until it is resumed.
   *
   * **Errors**
   *
   * - `RunNotFound` — check the id.
   * - `RunEnded` — start a new run in its session.
   * - `MessageInvalid` — see its `issues`. Also if another message has this id: one with other content, or to another agent of the run.
   */
  readonly send: (
    runId: RunId,
    message: MessageInput
  ) => Effect.Effect<Receipt, RunNotFound | RunEnded | MessageInvalid | RunStoreError>

  /**
   * Lists the messages that a run's journal does not contain, oldest first. Messages that were unread when the run ended stay in the list,
   * and do not make the run ready. Empty for an unknown run.
   */
  readonly messages: (runId: RunId) => Effect.Effect<ReadonlyArray<SentMessage>, RunStoreError>

  /** Reads one request, open or closed, with its decision if it has one or has expired. `runId` is the root run. */
  readonly request: (
    requestId: RequestId
  ) => Effect.Effect<
    PendingRequest & { readonly decision?: Decision },
    Extract<Rejection, { readonly _tag: "RequestNotFound" }> | RunStoreError
  >

  /**
   * Reads the requests that a token names (`Interruption.tokenOf`), with their decisions as `request` returns them: that of an external call,
   * and those of the same call while it was in doubt. Open ones first, then the newest first.
   */
  readonly withToken: (
    token: string
  ) => Effect.Effect<ReadonlyArray<PendingRequest & { readonly decision?: Decision }>, RunStoreError>

  /**
   * Lists the open requests of all runs, oldest first: the inbox. Expired requests are left out, except with `expiresBefore`. So are requests
   * that cannot be read; see `damaged`.
   */
  readonly pending: (filter?: PendingFilter) => Effect.Effect<ReadonlyArray<PendingRequest>, RunStoreError>

  /** Returns the head of a session's last run, or `undefined` if the session has no run. */
  readonly latest: (sessionId: SessionId) => Effect.Effect<RunHead | undefined, RunStoreError>

  /** Lists the heads of runs, newest first. Heads that cannot be read are left out; see `damaged`. */
  readonly list: (filter?: ListFilter) => Effect.Effect<ReadonlyArray<RunHead>, RunStoreError>

  /**
   * Lists sessions with their last runs, the one with the newest last run first.
   *
   * **Details**
   *
   * A fork is in a session of its own. Sessions whose last run cannot be read are left out; see `damaged`. Without a filter, a
   * page takes as long with many sessions, or many runs in one session, as with few.
   */
  readonly sessions: (filter?: SessionFilter) => Effect.Effect<ReadonlyArray<SessionHead>, RunStoreError>

  /**
   * Lists the entries that `list`, `sessions`, `pending` and `grants` leave out because they cannot be read; at most 1,000.
   *
   * **Details**
   *
   * It reads the head, the requests and the grants of every run. Damage in a journal or a message is found when the run is loaded, or by
   * the check of a whole store. Reading a damaged part of one of these runs fails with `StoreUnreadable`; `remove` deletes the run.
   */
  readonly damaged: Effect.Effect<ReadonlyArray<DamagedRun>, RunStoreError>

  /**
   * Lists the runs that a worker has to drive, each once. Runs that a process owns are not listed. Held runs for which no reason of
   * {@link ReadyRun} applies are not listed either.
   *
   * **Details**
   *
   * The reasons take turns in a page. Of the runs with one reason, the one that is ready for the longest time comes first; orphaned and
   * cancelled runs are ordered by their start. A page takes as long with many ready runs, or many runs of other agents, as with few.
   */
  readonly ready: (filter?: ReadyFilter) => Effect.Effect<ReadonlyArray<ReadyRun>, RunStoreError>

  /**
   * Returns the earliest time at which an open request expires, or is announced to expire soon, and makes its run ready if the run is held
   * then. `undefined` if there is none. A request whose announcement is due counts again once its journal has it.
   */
  readonly nextDue: (filter?: DueFilter) => Effect.Effect<Timestamp | undefined, RunStoreError>

  /**
   * Emits on subscription, and after each operation that may have made a run ready, parked it or released it.
   *
   * **Details**
   *
   * Operations of this process notify at once, those of other processes as soon as the store can pass them on. A notification may be
   * superfluous. An expired request sends none: see `nextDue`. Neither does an expired lease, so poll `ready` as well.
   */
  readonly changes: Stream.Stream<void>

  /** Keeps attachments and whole results beside the journals. A store without it has them in its journals, and refuses references. */
  readonly blobs?: BlobPort

  /** Keeps memory. Without it, a store has none, and searches fail with `MemoryUnavailable`. */
  readonly memory?: MemoryPort

  /** Passes live texts and notices of commits between processes. Absent if the store cannot. */
  readonly broadcast?: RunBroadcast

  /**
   * Requests cancellation from the run's current or next owner. The first reason wins. It does not affect a run that is completed or
   * cancelled; a failed run is cancelled once it is resumed.
   */
  readonly requestCancel: (runId: RunId, reason: string) => Effect.Effect<void, RunNotFound | RunStoreError>

  /**
   * Deletes a run with its journal, checkpoint, requests, messages and grants, and the contents to which only this run refers.
   *
   * **Details**
   *
   * Of a revoked grant, its id and the time of the revocation stay, so that a copy of the run cannot bring the grant back. A database may
   * keep deleted data in unused parts of its pages: see `SqliteStore.compact`, and `VACUUM` on Postgres.
   *
   * **Errors**
   *
   * - `RunNotFound` — check the id.
   * - `RunBusy` — a process owns the run; wait, or cancel it.
   * - `RunContinued` — a later run builds on the run; remove that one first, or let `prune` delete both.
   */
  readonly remove: (runId: RunId) => Effect.Effect<void, RunNotFound | RunBusy | RunContinued | RunStoreError>

  /**
   * Deletes the runs that ended before a time, and returns their number. A run stays if a process owns it, or if a run that stays builds on
   * it. Held and running runs are never deleted. Also deletes the contents that no run refers to and that were stored more than an hour
   * ago.
   */
  readonly prune: (options: { readonly endedBefore: Timestamp }) => Effect.Effect<number, RunStoreError>
}

/** The operations that `RunStore.fromCore` adds to a store that lacks them. */
export type Derived =
  | "head"
  | "events"
  | "decisions"
  | "messages"
  | "latest"
  | "sessions"
  | "damaged"
  | "nextDue"
  | "changes"
  | "prune"

/**
 * The operations of a store of your own, from which `RunStore.fromCore` makes the service. It need not have those of {@link Derived}, but
 * may have any that its database does better.
 */
export type RunStoreCore = Omit<RunStorePort, Derived> & Partial<Pick<RunStorePort, Derived>>
