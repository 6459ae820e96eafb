/**
 * What can go wrong between a run and its store: situations that the caller acts on, and {@link RunStoreError} for a database
 * that does not work.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { instant, lines, sentence } from "../domain/Display.ts"
import { GrantId, lineOf, Revision, RunId, Timestamp } from "../domain/Id.ts"
import { revokedText } from "../domain/RunError.ts"

/** No run has this id. */
export class RunNotFound extends Schema.TaggedError<RunNotFound>()("RunNotFound", {
  /** As it was asked for, which need not be an id. */
  runId: Schema.String,
  /** What was given in the place of an id, when that was no string. */
  given: Schema.optionalKey(Schema.String),
  /** Set where the run was there when it was last looked at. */
  removed: Schema.optionalKey(Schema.Literal(true))
}) {
  override get message() {
    if (this.removed === true) {
      return sentence`The run ${this.runId} was removed from this store, and nothing of it is left: start a new one, or import an archive of it.`
    }
    if (this.given !== undefined) {
      return sentence`A run is asked for by its id, and this is ${this.given}: pass the id, a string, with which the run was started.`
    }
    const { path, root } = lineOf(this.runId)
    if (path.length > 0) {
      return sentence`There is no run ${this.runId} in this store: it has the id of a sub-agent's run, which lies in that of ${root}; pass that id, or check this one.`
    }
    return sentence`There is no run ${this.runId} in this store: check the id, and that this is the store it was started with.`
  }
}

/**
 * How the copy of a run in an archive stands to the run of this id in the store.
 *
 * - `older`: the store has everything of the run that the archive has.
 * - `newer`: the archive has more of the run, and cannot replace it: a process has worked on it here, or another run builds on it, or a
 *   decision or a message that the store has acknowledged would be lost.
 * - `apart`: it is the same run, and each of the two has gone on by itself.
 * - `other`: they are two runs.
 */
export const ArchivedAs = Schema.Literals(["older", "newer", "apart", "other"])
export type ArchivedAs = typeof ArchivedAs.Type

/** A run with this id exists already. Resume it, or choose another id. */
export class RunExists extends Schema.TaggedError<RunExists>()("RunExists", {
  runId: RunId,
  status: Schema.String,
  /** Of an import: how the archive's copy of the run stands to the one that is here. */
  archive: Schema.optionalKey(ArchivedAs),
  /** Of an import: the grants that the archive says were revoked, and that are revoked here now. Nothing else of it was written. */
  revoked: Schema.optionalKey(Schema.Array(GrantId))
}) {
  override get message() {
    if (this.archive === undefined) {
      return sentence`The run ${this.runId} exists already and is ${this.status}: resume it, or start one with another id.`
    }
    const exists = sentence`The run ${this.runId} exists already and is ${this.status}, and `
    return `${exists}${refusals[this.archive]}${revokedText(this.revoked)}`
  }
}

const refusals: { readonly [K in ArchivedAs]: string } = {
  older:
    "has everything that the archive holds of it: nothing was imported. Go on with the run that is here.",
  newer:
    "the archive holds more of it: it was not imported, since a process has worked on the run here, or since a decision or a message taken here, or a run that builds on it, would lose its place. Compare the two, go on with one of them and remove the other.",
  apart:
    "has gone on otherwise than in the archive: nothing was imported. Compare the two, go on with one of them and remove the other.",
  other:
    "is another run than the one in the archive: nothing was imported. Import the archive into another store."
}

/** Another process works on the run. Wait for it, or try again after `until`. */
export class RunBusy extends Schema.TaggedError<RunBusy>()("RunBusy", {
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
 * Another writer appended to the run first; or, where `expected` is `actual`, a decision or a message came first that what was to be written
 * does not fit. Load it, decide again and retry.
 */
export class RunConflict extends Schema.TaggedError<RunConflict>()("RunConflict", {
  runId: RunId,
  expected: Revision,
  actual: Revision
}) {
  readonly isRetryable = true
  override get message() {
    return this.expected === this.actual
      ? sentence`A decision or a message came first that does not fit what was to be written to the run ${this.runId}: load it and decide again.`
      : sentence`The run ${this.runId} is at revision ${this.actual}, not ${this.expected}: load it and decide again.`
  }
}

/** The lease ran out or was taken over: this process must not write to the run or act for it any more. */
export class LeaseLost extends Schema.TaggedError<LeaseLost>()("LeaseLost", {
  runId: RunId,
  owner: Schema.String
}) {
  override get message() {
    return sentence`${this.owner} no longer owns the run ${this.runId}: another process may have taken it over. Nothing more was written.`
  }
}

/** A later run builds on this one, so it cannot be removed alone. Remove `by` first. */
export class RunContinued extends Schema.TaggedError<RunContinued>()("RunContinued", {
  runId: RunId,
  by: RunId
}) {
  override get message() {
    return sentence`The run ${this.runId} cannot be removed: ${this.by} builds on it. Remove ${this.by} first.`
  }
}

/** The run that a new one was to build on was removed or replaced meanwhile. Nothing was written; start again. */
export class RunRemoved extends Schema.TaggedError<RunRemoved>()("RunRemoved", { runId: RunId }) {
  readonly isRetryable = true
  override get message() {
    return sentence`The run ${this.runId} was removed or replaced before a new run could build on it, and nothing was written: start again. A prompt goes on from the runs that its session still has; a fork needs a run that is there.`
  }
}

/** Something that is not a message was sent as one. Nothing was written. */
export class MessageInvalid extends Schema.TaggedError<MessageInvalid>()("MessageInvalid", {
  issues: Schema.String
}) {
  override get message() {
    return sentence`This is not a message: ${lines(this.issues)}. Send text or file parts as its content, and a messageId or none.`
  }
}

/** The database could not be opened. */
export class CannotOpen extends Schema.TaggedError<CannotOpen>()("CannotOpen", { detail: Schema.String }) {
  readonly isRetryable = false
  override get message() {
    return sentence`The store cannot be opened: ${lines(this.detail)}`
  }
}

/** The disk is full, or a quota is. Everything acknowledged is safe; free some space and try again. */
export class StorageFull extends Schema.TaggedError<StorageFull>()("StorageFull", { detail: Schema.String }) {
  readonly isRetryable = true
  override get message() {
    return sentence`The store has no space left (${lines(this.detail)}). What was acknowledged is safe: free some space and try again.`
  }
}

/** Another process kept the database locked for longer than the deadline. */
export class StoreBusy extends Schema.TaggedError<StoreBusy>()("StoreBusy", { waitedMs: Schema.Finite }) {
  readonly isRetryable = true
  override get message() {
    return sentence`The store was locked by another process for ${this.waitedMs} ms: try again.`
  }
}

/** The database is damaged, or holds what this version cannot read. */
export class StoreUnreadable extends Schema.TaggedError<StoreUnreadable>()("StoreUnreadable", {
  detail: Schema.String
}) {
  readonly isRetryable = false
  override get message() {
    return sentence`The store cannot be read: ${lines(this.detail)}`
  }
}

/** The connection was lost while a commit was under way, and whether it was made could not be found out. */
export class OutcomeUnknown extends Schema.TaggedError<OutcomeUnknown>()("OutcomeUnknown", {}) {
  readonly isRetryable = true
  override get message() {
    return "The connection was lost during a commit, and whether it was made could not be found out. Read the run before you try again."
  }
}

/** Anything else that the database reported. */
export class StoreFault extends Schema.TaggedError<StoreFault>()("StoreFault", {
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
 * The store could not do what was asked. A write is there as a whole or not at all: with the reason `OutcomeUnknown` it is not
 * known which of the two, with any other it is not there. `prune` removes in several steps, and what it has removed stays removed.
 */
export class RunStoreError extends Schema.TaggedError<RunStoreError>()("RunStoreError", {
  operation: Schema.String,
  reason: Schema.Union([CannotOpen, StorageFull, StoreBusy, StoreUnreadable, OutcomeUnknown, StoreFault]),
  cause: Schema.optionalKey(Schema.Defect())
}) {
  get isRetryable(): boolean {
    return this.reason.isRetryable
  }
  override get message() {
    return this.reason.message
  }
}
