/**
 * What a store of runs has to do: the port that `RunStore` names as a service, and that each database implements.
 *
 * @since 0.1.0
 */
import type * as Arr from "effect/Array"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { Decision, DecisionInput } from "../domain/Decision.ts"
import type { GrantNotFound, Revocation, Revoked } from "../domain/Grant.ts"
import type { GrantId, RequestId, Revision, RunId, SessionId, Timestamp } from "../domain/Id.ts"
import type { Interruption, Kind } from "../domain/Interruption.ts"
import type { Rejection } from "../domain/Rejection.ts"
import type { RunEnded, SessionBusy } from "../domain/RunError.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { Status } from "../domain/RunState.ts"
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

/** The right to drive one run, until a time. Every write under it carries `epoch`, which grows with every claim. */
export interface Lease {
  readonly runId: RunId
  readonly owner: string
  readonly epoch: number
  /** When it ends unless it is renewed; the store's clock. */
  readonly until: Timestamp
}

/** What a store knows of a run without reading its journal. */
export interface RunHead {
  readonly runId: RunId
  readonly sessionId: SessionId
  /** Name of the root agent that it was started under, whichever agent has the conversation now. A runtime of this agent goes on with it. */
  readonly agent: string
  /** Name of the agent that has the conversation, when that is another one, after a handoff. */
  readonly answeredBy?: string
  readonly status: Status
  readonly revision: Revision
  readonly parent?: { readonly runId: RunId; readonly revision: Revision }
  readonly createdAt: Timestamp
  readonly updatedAt: Timestamp
  /** The reason of a request to cancel the run; set until the run is completed or cancelled: one that failed can be resumed. */
  readonly cancelReason?: string
  /** Set while a process owns the run. */
  readonly lease?: { readonly owner: string; readonly until: Timestamp }
}

/**
 * What a run came to at some revision, in pieces of text: a short way to what its journal says anyway. The store keeps it as it is
 * given, and looks only at its version.
 */
export interface NewCheckpoint {
  readonly version: number
  /** The checkpoint that holds the chunks before these, and how many of its chunks they are. */
  readonly base?: { readonly runId: RunId; readonly chunks: number }
  /** What later checkpoints share with this one, and what does not change. */
  readonly chunks: ReadonlyArray<string>
  /** The rest. */
  readonly state: string
}

/** A checkpoint as it is read back. */
export interface Checkpoint extends Omit<NewCheckpoint, "base"> {
  readonly runId: RunId
  readonly revision: Revision
  /** All chunks, oldest first. */
  readonly chunks: ReadonlyArray<string>
}

/** A run as it was stored. */
export interface StoredRun {
  readonly head: RunHead
  /** Set where one was asked for and there is one; the run's own, or that of a run that it builds on. */
  readonly checkpoint?: Checkpoint
  /**
   * The events that the run's state is folded from, oldest first: those of earlier runs of the session that it builds on, then
   * its own. With a checkpoint, those after it.
   */
  readonly events: ReadonlyArray<RunEvent>
  /** Decisions that were taken but are not in the journal yet, oldest first. */
  readonly decisions: ReadonlyArray<Decision>
  /** Messages that were sent but are not in the journal yet, oldest first. */
  readonly messages: ReadonlyArray<SentMessage>
}

/** What an append reports back. */
export interface Appended {
  readonly revision: Revision
  /** Set when cancellation was requested. */
  readonly cancelReason?: string
  /** Set when there are decisions or messages that the journal does not hold. */
  readonly hasMail?: boolean
  /** Set when a grant that the events rely on was revoked: then nothing was written, and `revision` is as it was. */
  readonly revoked?: ReadonlyArray<Revoked>
}

/** A request that waits, with what an inbox shows. */
export interface PendingRequest {
  readonly request: Interruption
  /** The root run, by which it is resumed; `request.runId` may be a sub-agent's. */
  readonly runId: RunId
  readonly sessionId: SessionId
  /** Name of the agent that the root run was started under. */
  readonly agent: string
}

/** A run of which a part cannot be read. */
export interface DamagedRun {
  /** The run's id; words in its place where that cannot be read either. */
  readonly runId: string
  /** What cannot be read, and what to do. */
  readonly problem: string
}

/** A run that needs a worker, and why. */
export interface ReadyRun {
  readonly runId: RunId
  /** Name of the root agent. */
  readonly agent: string
  /**
   * `orphaned`: at work, and owned by no process. The others are held: `cancelled`: its cancellation was requested. `decided`: there is a
   * decision to act on. `message`: one was sent. `expired`: the time of a request is up. `expiring`: it soon will be, and
   * nobody was told.
   */
  readonly reason: "orphaned" | "cancelled" | "decided" | "message" | "expired" | "expiring"
}

/** A run as another store held it. */
export interface RestoredRun extends Pick<
  RunHead,
  "agent" | "cancelReason" | "parent" | "runId" | "sessionId" | "status"
> {
  /** The events that the next run builds on; all events of the last one. */
  readonly events: Arr.NonEmptyReadonlyArray<RunEvent>
  /**
   * The events behind those, with which the run went on. Where they were not copied it is one `run.cancelled` that says so; a later
   * `restore` may replace that by the run.
   */
  readonly rest?: ReadonlyArray<RunEvent>
  /** Decisions on the run's requests that its events do not hold. */
  readonly decisions?: ReadonlyArray<Decision>
  /** Messages to the run that its events do not hold. */
  readonly messages?: ReadonlyArray<SentMessage>
}

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
   * passed this finds the ones that no process has worked on since.
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

/** Durable storage of runs. */
export interface RunStorePort {
  /**
   * Stores a new run with its first events and claims it.
   *
   * **Errors**
   *
   * - `RunExists` — resume that one, or choose another id.
   * - `SessionBusy` — a session is one line of runs, and another one has this place: it builds on `parent` too, or, without a
   *   parent or with one of another session (a fork), it is the first; or `parent`, of the same session, has not ended, or has gone on
   *   since that revision.
   * - `RunRemoved` — `parent` is not, or no longer, in this store up to that revision as it was read: read the session again, and
   *   start again.
   */
  readonly create: (
    options: Pick<RunHead, "agent" | "runId" | "sessionId" | "status"> & {
      /** `createdAt` as its head had it when it was read: another run of this id, or a copy that was replaced since, is not built on. */
      readonly parent?: NonNullable<RunHead["parent"]> & { readonly createdAt?: Timestamp }
      /** What `parent` came to at its revision. */
      readonly checkpoint?: NewCheckpoint
      readonly events: Arr.NonEmptyReadonlyArray<RunEvent>
      readonly owner: string
      readonly ttl: Duration.Input
    }
  ) => Effect.Effect<Lease, RunExists | RunRemoved | SessionBusy | RunStoreError>

  /**
   * Appends events, all or none, and returns the new revision.
   *
   * **Details**
   *
   * `expected` is the revision the caller read: the number of the run's own events stored already. `status` becomes the
   * head's. Requests that the events open or close (also inside sub-agents) change in the inbox in the same transaction, and
   * messages that they take (`message.queued` with a `messageId`) no longer wait; when `status` is an ended one, all requests
   * that are still open are closed. `grants` are those that let through the calls which the events start: if one of them was
   * revoked, nothing is written, and the revocations are returned. A revocation that is acknowledged later came after the start.
   *
   * **Errors**
   *
   * - `RunConflict` — someone appended first, or one of the events decides a request that was decided otherwise, or takes
   *   a message that the journal has already, or ends the run without a decision that was taken: load, decide again, retry.
   * - `LeaseLost` — the lease is not in force; stop working on the run.
   * - `SessionBusy` — the events take up a run that had ended, and the session has gone on from there with the next run.
   */
  readonly append: (options: {
    readonly lease: Lease
    readonly expected: Revision
    readonly events: Arr.NonEmptyReadonlyArray<RunEvent>
    readonly status: Status
    readonly grants?: ReadonlyArray<StoredGrant>
  }) => Effect.Effect<Appended, RunConflict | LeaseLost | SessionBusy | RunStoreError>

  /**
   * Like `append`, and gives the lease back in the same transaction, unless a decision or a message that is not in the journal
   * yet, or a request to cancel, is waiting: then nothing is written and `parked` is false. Nothing can fall between the two.
   */
  readonly park: (options: {
    readonly lease: Lease
    readonly expected: Revision
    readonly events: Arr.NonEmptyReadonlyArray<RunEvent>
    readonly status: Status
    /** What the run comes to with these events. */
    readonly checkpoint?: NewCheckpoint
  }) => Effect.Effect<
    { readonly parked: boolean; readonly revision: Revision },
    RunConflict | LeaseLost | SessionBusy | RunStoreError
  >

  /**
   * Stores runs that another store held, oldest first, with the decisions on the last one and the messages to it that its
   * journal does not hold: all of it or nothing. The runs have no lease afterwards.
   *
   * **Details**
   *
   * A run that is here is left as it is if the next one can build on it. If it is itself a copy that no process has claimed, its
   * journal is the beginning of the given one, and no run builds on more of it, it becomes the given one: copies arrive in any
   * order. It has a new `createdAt` then. Decisions and messages that it got here stay, or the copy is refused. The last run may be
   * here only like this; nothing changes if the two are the same. No run of the chain can be removed meanwhile.
   *
   * Grants that these runs gave are revoked here when their journals say so, or when they are among `revoked`, the other store's rows of
   * them. Rows of grants that no run of the chain gave are not looked at. A grant that was revoked here before its run was deleted is
   * kept again, revoked. Of a run that was claimed here, only grants that it gave here are revoked.
   *
   * Also where the runs are refused, the grants of those that are here are revoked, before that is answered: `revoked` in the error
   * lists those of them that are revoked now. Nothing else is written. A run that is here is one of these if its session, its agent, its
   * parent and its first event are the same.
   *
   * **Errors**
   *
   * - `RunExists` — the last run is here, or another run has the id of one of the others; with `archive` and `revoked`.
   * - `SessionBusy` — another run is in its place in the session; with `archived` and `revoked`.
   */
  readonly restore: (
    runs: Arr.NonEmptyReadonlyArray<RestoredRun>,
    decisions: ReadonlyArray<Decision>,
    messages: ReadonlyArray<SentMessage>,
    revoked?: ReadonlyArray<StoredGrant>
  ) => Effect.Effect<void, RunExists | SessionBusy | RunStoreError>

  /**
   * Reads a run: all events, or, with `checkpointVersion`, the newest checkpoint of that version and the events after it.
   *
   * **Details**
   *
   * A checkpoint is a copy. One of which a part is missing is not given, and all events are, as where there is none.
   */
  readonly load: (
    runId: RunId,
    options?: { readonly checkpointVersion?: number }
  ) => Effect.Effect<StoredRun, RunNotFound | RunStoreError>

  /** The run's own events from `from` (a revision, 0 for all), oldest first; at most `limit` (default: all). */
  readonly events: (
    runId: RunId,
    options?: { readonly from?: number; readonly limit?: number }
  ) => Effect.Effect<ReadonlyArray<RunEvent>, RunNotFound | RunStoreError>

  /** What is known about a run without its journal. */
  readonly head: (runId: RunId) => Effect.Effect<RunHead, RunNotFound | RunStoreError>

  /**
   * Takes the lease of a run that no process owns, or whose lease has expired.
   *
   * **Errors**
   *
   * - `RunBusy` — another process owns the run; wait, or try after `until`.
   */
  readonly claim: (options: {
    readonly runId: RunId
    readonly owner: string
    readonly ttl: Duration.Input
  }) => Effect.Effect<Lease, RunNotFound | RunBusy | RunStoreError>

  /** Extends a lease that is still in force; reports what an append reports. */
  readonly renew: (
    lease: Lease,
    ttl: Duration.Input
  ) => Effect.Effect<{ readonly lease: Lease } & Omit<Appended, "revision">, LeaseLost | RunStoreError>

  /** Gives a lease back. A lease that was lost is left alone. */
  readonly release: (lease: Lease) => Effect.Effect<void, RunStoreError>

  /**
   * Takes a decision, once per request: the first wins. It needs no lease; the next owner of the run finds it.
   *
   * **Details**
   *
   * A request whose `expiresAt` has passed (and whose policy is to deny) is decided by `expiry` first, so that a late decision
   * gets `AlreadyDecided`. A run, or a sub-agent, for which a cancellation was acknowledged takes no decisions any more.
   *
   * **Errors**
   *
   * - `RequestNotFound`, `AlreadyDecided` (with the decision that counts), `RequestSuperseded`, `ArgumentsChanged`,
   *   `DecisionNotApplicable`, `GrantRefused`, `DecisionMalformed`.
   */
  readonly decide: (
    decision: DecisionInput
  ) => Effect.Effect<{ readonly runId: RunId; readonly decision: Decision }, Rejection | RunStoreError>

  /**
   * Takes several decisions in one transaction, all or none, on requests of any runs, and returns what {@link RunStore} `decide`
   * would have returned for each, in their order.
   *
   * **Details**
   *
   * The first decision that is refused refuses all of them: nothing is written, no expiry either. A decision that is on record with
   * the same idempotency key counts as taken. Two decisions on one request are a refusal, unless the second repeats the first.
   *
   * **Errors**
   *
   * - Those of `decide`; the error names the request.
   */
  readonly decideAll: (
    decisions: ReadonlyArray<DecisionInput>
  ) => Effect.Effect<
    ReadonlyArray<{ readonly runId: RunId; readonly decision: Decision }>,
    Rejection | RunStoreError
  >

  /** The decisions on a run's requests that are not in its journal yet, oldest first. Expired requests count as denied by `expiry`. */
  readonly decisions: (runId: RunId) => Effect.Effect<ReadonlyArray<Decision>, RunStoreError>

  /**
   * The grants that approvals created, oldest first, revoked ones included. One that cannot be read is left out (see `damaged`); asked for
   * by its id or its run, it fails with `StoreUnreadable`. An append that relies on it counts it as revoked.
   */
  readonly grants: (filter?: GrantFilter) => Effect.Effect<ReadonlyArray<StoredGrant>, RunStoreError>

  /**
   * Revokes a grant and returns it: in every run, fork and process, no call starts under it any more. It needs no lease. The
   * first revocation stands.
   *
   * **Details**
   *
   * `given` is the grant as a run's state holds it, for one that the store has not kept: an earlier version recorded its decision.
   *
   * **Errors**
   *
   * - `GrantNotFound` — list the grants, and revoke one of those.
   */
  readonly revokeGrant: (options: {
    readonly grantId: GrantId
    readonly revocation: Revocation
    readonly given?: StoredGrant
  }) => Effect.Effect<StoredGrant, GrantNotFound | RunStoreError>

  /**
   * Sends a message to a run, once per id: one that is sent again is the one that was sent first, and gets its answer. It needs
   * no lease; the run's current or next owner takes it into the journal with a `message.queued` of its id. One
   * with `to` is for a sub-agent in the run, which the store does not look for. A run that failed takes one with `ends`, and keeps it
   * until it is resumed.
   *
   * **Errors**
   *
   * - `RunNotFound` — check the id.
   * - `RunEnded` — start a new run in its session.
   * - `MessageInvalid` — see its `issues`; also when its id is that of a message to another agent of the run.
   */
  readonly send: (
    runId: RunId,
    message: MessageInput
  ) => Effect.Effect<Receipt, RunNotFound | RunEnded | MessageInvalid | RunStoreError>

  /**
   * The messages to a run that are not in its journal, oldest first. Those that were not taken before the run ended stay readable,
   * and wake no process.
   */
  readonly messages: (runId: RunId) => Effect.Effect<ReadonlyArray<SentMessage>, RunStoreError>

  /** One request, whatever became of it. `runId` is the root run's. */
  readonly request: (
    requestId: RequestId
  ) => Effect.Effect<
    PendingRequest & { readonly decision?: Decision },
    Extract<Rejection, { readonly _tag: "RequestNotFound" }> | RunStoreError
  >

  /** The open requests of all runs, oldest first: the inbox. Those that cannot be read are left out; see `damaged`. */
  readonly pending: (filter?: PendingFilter) => Effect.Effect<ReadonlyArray<PendingRequest>, RunStoreError>

  /** The run of a session that no other run of it follows; `undefined` when there is none. */
  readonly latest: (sessionId: SessionId) => Effect.Effect<RunHead | undefined, RunStoreError>

  /** The runs, newest first. Those that cannot be read are left out; see `damaged`. */
  readonly list: (filter?: ListFilter) => Effect.Effect<ReadonlyArray<RunHead>, RunStoreError>

  /**
   * What `list`, `pending` and `grants` leave out because it cannot be read, at most 1,000 entries. Asking about one of these runs
   * fails with `StoreUnreadable`, nothing of it is executed, and `remove` deletes it.
   *
   * **Details**
   *
   * It reads the heads, the requests and the grants of all runs. Whether their journals can be read is found out when they are
   * loaded, and by the check of a whole store.
   */
  readonly damaged: Effect.Effect<ReadonlyArray<DamagedRun>, RunStoreError>

  /**
   * The runs that need a worker, each once, the longest untouched first. Runs that wait for people are not
   * among them, however many there are.
   */
  readonly ready: (filter?: ReadyFilter) => Effect.Effect<ReadonlyArray<ReadyRun>, RunStoreError>

  /**
   * Emits on subscription, and whenever a run may have become ready by an operation, or was parked or given back: at
   * once for this process, as fast as the store can notify for others. It may emit for nothing, and time that passes (a lease, an
   * expiry) sends no notification: poll `ready` as well.
   */
  readonly changes: Stream.Stream<void>

  /** Requests cancellation from the run's current or next owner. The first reason wins. */
  readonly requestCancel: (runId: RunId, reason: string) => Effect.Effect<void, RunNotFound | RunStoreError>

  /**
   * Deletes a run with everything that belongs to it.
   *
   * **Details**
   *
   * A database may keep traces of what was deleted in the unused room of its pages: see `SqliteStore.compact`, and `VACUUM` on
   * Postgres.
   *
   * **Errors**
   *
   * - `RunBusy` — a process owns it.
   * - `RunContinued` — a later run builds on its journal; remove that one first, or let `prune` do both.
   */
  readonly remove: (runId: RunId) => Effect.Effect<void, RunNotFound | RunBusy | RunContinued | RunStoreError>

  /**
   * Deletes the runs that ended before a time, unless a later run of the session builds on them, and returns how many. Held
   * and running runs are never deleted by this.
   */
  readonly prune: (options: { readonly endedBefore: Timestamp }) => Effect.Effect<number, RunStoreError>
}
