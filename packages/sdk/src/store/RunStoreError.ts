/**
 * The errors of run stores: one class for each situation that a caller handles, and {@link RunStoreError} for failures of the database.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Sha256 } from "../domain/Blob.ts"
import { instant, lines, sentence } from "../domain/Display.ts"
import { GrantId, lineOf, Revision, RunId, Timestamp } from "../domain/Id.ts"
import { Misfit } from "../domain/Misfit.ts"
import { revokedText } from "../domain/RunError.ts"
import { TaggedError } from "../domain/TaggedError.ts"

/** The store has no run with this id. */
export class RunNotFound extends TaggedError<RunNotFound>()("RunNotFound", {
  /** The id that the caller passed; it need not be a valid id. Empty when `given` is set. */
  runId: Schema.String,
  /** The kind of the value that the caller passed as an id, when it was not a string. */
  given: Schema.optionalKey(Schema.String),
  /** Set when the run existed at an earlier read. */
  removed: Schema.optionalKey(Schema.Literal(true))
}) {
  override get message() {
    if (this.removed === true) {
      return sentence`The run ${this.runId} was removed from this store: start a new one, or import an archive of it.`
    }
    if (this.given !== undefined) {
      return sentence`The id of a run is a string, and this is ${this.given}: pass the id with which the run was started.`
    }
    const { path, root } = lineOf(this.runId)
    if (path.length > 0) {
      return sentence`There is no run ${this.runId} in this store: an id of this form names a sub-agent's run inside ${root}. Pass the id of ${root}, or check this one.`
    }
    return sentence`There is no run ${this.runId} in this store: check the id, and that this is the store it was started with.`
  }
}

/**
 * The relation between the copy of a run in an archive and the run with the same id in the store.
 *
 * - `older`: the store has everything that the archive has of the run.
 * - `newer`: the archive has more of the run, and cannot replace the store's run, because a process has claimed that run, another run
 *   builds on it, or a decision or message that the store acknowledged would be lost.
 * - `apart`: both are the same run, and each has continued differently.
 * - `other`: they are different runs.
 */
export const ArchivedAs = Schema.Literals(["older", "newer", "apart", "other"])
export type ArchivedAs = typeof ArchivedAs.Type

/**
 * A run that a caller starts, submits, forks or imports has the id of a stored run. Resume that run, or choose another id; for an import,
 * see `archive`.
 */
export class RunExists extends TaggedError<RunExists>()("RunExists", {
  runId: RunId,
  status: Schema.String,
  /** Set by an import: the relation of the archive's copy to the run in the store. */
  archive: Schema.optionalKey(ArchivedAs),
  /** Set by an import: the grants that the archive lists as revoked and that are revoked in this store now. The import wrote nothing else. */
  revoked: Schema.optionalKey(Schema.Array(GrantId))
}) {
  override get message() {
    if (this.archive === undefined) {
      return sentence`The run ${this.runId} already exists and is ${this.status}: resume it, or start a run with another id.`
    }
    const exists = sentence`The run ${this.runId} already exists and is ${this.status}, and `
    return `${exists}${refusals[this.archive]}${revokedText(this.revoked)}`
  }
}

const refusals: { readonly [K in ArchivedAs]: string } = {
  older:
    "has everything that the archive contains of it: nothing was imported. Continue with the run in this store.",
  newer:
    "the archive contains more of it: it was not imported, because a process of this store has claimed the run, or a decision, a message or a later run that depends on it would be lost. Compare the two, continue with one of them and remove the other.",
  apart:
    "has continued differently from the archive's copy: nothing was imported. Compare the two, continue with one of them and remove the other.",
  other:
    "is a different run from the one in the archive: nothing was imported. Import the archive into another store."
}

/** A process owns the run's lease: another one, or this one already. Wait until `owner` releases it, or try again after `until`. */
export class RunBusy extends TaggedError<RunBusy>()("RunBusy", {
  runId: RunId,
  owner: Schema.String,
  until: Timestamp
}) {
  readonly isRetryable = true
  override get message() {
    return sentence`The run ${this.runId} is being worked on by ${this.owner} until ${instant(this.until)} at least.`
  }
}

/**
 * Another writer appended to the run first. If `expected` equals `actual`, the events contradict a stored decision or message: see the
 * errors of `RunStore.append`. Load the run, compute the events again and retry.
 */
export class RunConflict extends TaggedError<RunConflict>()("RunConflict", {
  runId: RunId,
  expected: Revision,
  actual: Revision
}) {
  readonly isRetryable = true
  override get message() {
    return this.expected === this.actual
      ? sentence`A decision or a message that contradicts this append was stored first for the run ${this.runId}: load the run and decide again.`
      : sentence`The run ${this.runId} is at revision ${this.actual}, not ${this.expected}: load the run and decide again.`
  }
}

/** The lease expired or was released, another process has claimed the run, or the run was removed. This process must stop driving it. */
export class LeaseLost extends TaggedError<LeaseLost>()("LeaseLost", {
  runId: RunId,
  owner: Schema.String
}) {
  override get message() {
    return sentence`${this.owner} no longer owns the run ${this.runId}: the lease expired, or another process has claimed the run. Nothing more was written.`
  }
}

/** `remove` was given a run on which a later run or a fork, `by`, builds. Remove that one first. */
export class RunContinued extends TaggedError<RunContinued>()("RunContinued", {
  runId: RunId,
  by: RunId
}) {
  override get message() {
    return sentence`The run ${this.runId} cannot be removed: ${this.by} builds on it. Remove ${this.by} first.`
  }
}

/**
 * The run that a new run builds on (the previous run of its session, or the original of a fork) was removed or replaced before the new run
 * was stored. Nothing was written; start again.
 */
export class RunRemoved extends TaggedError<RunRemoved>()("RunRemoved", { runId: RunId }) {
  readonly isRetryable = true
  override get message() {
    return sentence`The run ${this.runId} was removed or replaced before a new run could build on it, and nothing was written: start again. A prompt continues from the runs that its session still has; a fork needs a run that exists.`
  }
}

/**
 * The value that was sent is not a valid message, or another message of the run has its id: one with other content or to another agent.
 * Nothing was written.
 */
export class MessageInvalid extends TaggedError<MessageInvalid>()("MessageInvalid", {
  issues: Schema.String
}) {
  override get message() {
    return sentence`The message is not valid: ${lines(this.issues)}. Pass text or file parts as its content; messageId is optional.`
  }
}

/** The database could not be opened. */
export class CannotOpen extends TaggedError<CannotOpen>()("CannotOpen", { detail: Schema.String }) {
  readonly isRetryable = false
  override get message() {
    return sentence`The store cannot be opened: ${lines(this.detail)}`
  }
}

/** The disk is full, or a quota is used up. Acknowledged data is safe; free some space and try again. */
export class StorageFull extends TaggedError<StorageFull>()("StorageFull", { detail: Schema.String }) {
  readonly isRetryable = true
  override get message() {
    return sentence`The store has no space left (${lines(this.detail)}). Acknowledged data is safe: free some space and try again.`
  }
}

/** Other transactions held locks of the database for longer than the store's `busyDeadline`, 10 seconds by default. Nothing was written. */
export class StoreBusy extends TaggedError<StoreBusy>()("StoreBusy", { waitedMs: Schema.Finite }) {
  readonly isRetryable = true
  override get message() {
    return sentence`The store was locked by another process for ${this.waitedMs} ms: try again.`
  }
}

/** The database, or the data that the operation reads, is damaged or was written by a newer version. */
export class StoreUnreadable extends TaggedError<StoreUnreadable>()("StoreUnreadable", {
  detail: Schema.String
}) {
  readonly isRetryable = false
  override get message() {
    return sentence`The store cannot be read: ${lines(this.detail)}`
  }
}

/** The store does not have a content that an event, a message or a read refers to. Nothing was written. */
export class BlobMissing extends TaggedError<BlobMissing>()("BlobMissing", {
  sha256: Sha256,
  /** The length that the reference states. Absent if the content was to be read. */
  bytes: Schema.optionalKey(Schema.Natural)
}) {
  readonly isRetryable = false
  override get message() {
    const what = this.bytes === undefined ? "content" : sentence`content of ${this.bytes} bytes`
    return sentence`The store has no ${what} with the SHA-256 ${this.sha256}: attach the file to this store, and use the part that is returned.`
  }
}

/** The connection was lost during a commit, and the store could not determine whether the commit succeeded. Read the run before a retry. */
export class OutcomeUnknown extends TaggedError<OutcomeUnknown>()("OutcomeUnknown", {}) {
  readonly isRetryable = true
  override get message() {
    return "The connection was lost during a commit, and the store could not determine whether the commit succeeded. Read the run before you try again."
  }
}

/** An argument of the operation, such as a filter, has an unknown key or a value that it does not take. Nothing was read or written. */
export class InputInvalid extends TaggedError<InputInvalid>()("InputInvalid", {
  misfits: Schema.Array(Misfit)
}) {
  readonly isRetryable = false
  override get message() {
    const problems = this.misfits.map(({ problem }) => problem).join("; ")
    return sentence`The store was called with an invalid argument, and did nothing: ${problems}.`
  }
}

/**
 * The operation was called in a transaction of the store's `SqlClient`, and cannot be part of it. `drives`: it drives a run, which must not
 * act on what may be rolled back. `isolation`: the transaction's isolation level is not `READ COMMITTED` (Postgres).
 */
export class InTransaction extends TaggedError<InTransaction>()("InTransaction", {
  why: Schema.Literals(["drives", "isolation"])
}) {
  readonly isRetryable = false
  override get message() {
    return this.why === "drives"
      ? "A run cannot be driven inside a transaction, because its effects would stay after a rollback: submit it, decide on it or send it a message in the transaction, and let a worker drive it."
      : "The store cannot join a transaction of this isolation level: begin it with READ COMMITTED, which is the default of Postgres."
  }
}

/** Any other failure of the database, or data of a caller or a model that could not be read again and was therefore not written. */
export class StoreFault extends TaggedError<StoreFault>()("StoreFault", {
  detail: Schema.String,
  retryable: Schema.Boolean
}) {
  get isRetryable() {
    return this.retryable
  }
  override get message() {
    return sentence`The store failed: ${lines(this.detail)}`
  }
}

/**
 * An operation of a store failed; `reason` says why.
 *
 * **Details**
 *
 * A write is stored completely or not at all. With the reason `OutcomeUnknown` it may have been stored; with any other reason it was
 * not. There are two exceptions. `prune` deletes in several transactions, and those that were committed stay committed. A `renew` or
 * `release` whose connection was lost may have been stored; both can be repeated.
 */
export class RunStoreError extends TaggedError<RunStoreError>()("RunStoreError", {
  operation: Schema.String,
  reason: Schema.Union([
    CannotOpen,
    StorageFull,
    StoreBusy,
    StoreUnreadable,
    BlobMissing,
    OutcomeUnknown,
    InputInvalid,
    InTransaction,
    StoreFault
  ]),
  cause: Schema.optionalKey(Schema.Defect())
}) {
  get isRetryable(): boolean {
    return this.reason.isRetryable
  }
  override get message() {
    return this.reason.message
  }
}
