/**
 * Schemas of the rows that a database returns. Every row is checked, because a database file is input.
 *
 * A row that cannot be read affects only its own run: reading that run fails with an error that names the row, and lists leave it out.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import { isRunWithin, Revision, RunId, SessionId } from "../../../domain/Id.ts"
import { verbatim } from "../../../domain/internal/verbatim.ts"
import { UserPart } from "../../../domain/Message.ts"
import { Reopens, Status } from "../../../domain/RunState.ts"
import type { RunStoreError } from "../../RunStoreError.ts"
import type { RunHead, SessionHead } from "../../RunStorePort.ts"
import { MessageId, type SentMessage } from "../../SentMessage.ts"
import { latestTime } from "../bounds.ts"
import { isCancellable } from "../requests.ts"
import type { SqlAccess } from "./access.ts"
import { damagedColumns, readAll, type RowKind, displayId } from "./damage.ts"
import { isLeased } from "./lease.ts"

/** A number from a `number` or a `bigint`: some drivers return 64-bit columns as `bigint`. */
export const SafeInteger = Schema.Union([Schema.Finite, Schema.BigInt]).pipe(
  Schema.decodeTo(Schema.Finite, {
    decode: SchemaGetter.transform(Number),
    encode: SchemaGetter.transform((value: number) => value)
  })
)
const WholeRevision = SafeInteger.pipe(Schema.decodeTo(Revision))

/** A time from 1970 that a `Date` can represent. */
export const Time = SafeInteger.check(Schema.isBetween({ minimum: 0, maximum: latestTime }))

/** Whether a column equals a time, up to the fraction of a millisecond that an integer column drops. */
export const isSameTime = (column: number | null, time: number | undefined): boolean =>
  column === null || time === undefined ? column === null && time === undefined : Math.abs(column - time) < 1

/** The agent of a run at work, in the index of statuses. The runs with another status are ordered by time alone. */
export const agentAtWork = "CASE status WHEN 'running' THEN agent END"

const HeadRow = Schema.Struct({
  run_id: RunId,
  session_id: SessionId,
  parent_run_id: Schema.NullOr(RunId),
  parent_revision: Schema.NullOr(WholeRevision),
  agent: Schema.String,
  answered_by: Schema.NullOr(Schema.String),
  status: Status,
  revision: WholeRevision,
  /** `null` unless the lease is in force. */
  owner: Schema.NullOr(Schema.String),
  lease_until: Schema.NullOr(Time),
  created_at: Time,
  updated_at: Time,
  // Not part of the head, but used by claims, cancellations and starts of the next run.
  epoch: WholeRevision,
  cancel_reason: Schema.NullOr(Schema.String),
  follows: Schema.NullOr(Schema.String)
})

const SessionRow = Schema.Struct({ ...HeadRow.fields, began: Time })

/** Whether a row needs no decoding, as with drivers that return numbers. */
const isDecodedHead = verbatim(Schema.toType(HeadRow))

/** The sentence for a damaged head. */
export const damagedEntry = (runId: RunId, columns: ReadonlyArray<string>): string =>
  damagedColumns(`the entry of the run ${displayId(runId)}`, columns)

/** Rows of heads. */
export const headKind: RowKind<typeof HeadRow.Type, RunHead> = {
  row: HeadRow,
  quick: (row) => (isDecodedHead(row) ? row : undefined),
  what: ({ run_id }) => `the entry of the run ${displayId(run_id)}`,
  agreements: (row) => ({ parent_revision: (row.parent_run_id === null) === (row.parent_revision === null) }),
  make: (row) => ({
    runId: row.run_id,
    sessionId: row.session_id,
    agent: row.agent,
    ...(row.answered_by === null || row.answered_by === row.agent ? {} : { answeredBy: row.answered_by }),
    status: row.status,
    revision: row.revision,
    ...(row.parent_run_id === null || row.parent_revision === null
      ? {}
      : { parent: { runId: row.parent_run_id, revision: row.parent_revision } }),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    ...(row.cancel_reason === null || !isCancellable(row.status) ? {} : { cancelReason: row.cancel_reason }),
    ...(row.owner === null || row.lease_until === null
      ? {}
      : { lease: { owner: row.owner, until: row.lease_until } })
  })
}

/** Rows of heads of sessions: that of the last run, and the time of the first one. */
export const sessionKind: RowKind<typeof SessionRow.Type, SessionHead> = {
  row: SessionRow,
  what: headKind.what,
  agreements: headKind.agreements!,
  make: (row) => ({ sessionId: row.session_id, last: headKind.make(row), createdAt: row.began })
}

/** The columns of a head. `owner` is NULL unless the lease is in force. */
export const headColumns = (
  access: SqlAccess
) => access.sql`run_id, session_id, parent_run_id, parent_revision, agent,
  answered_by, status, revision, CASE WHEN ${isLeased(access)} THEN owner END AS owner, lease_until, created_at, updated_at,
  epoch, cancel_reason, follows`

/** Makes the function that reads the head of the run that meets a condition. */
export const makeHeads = (access: SqlAccess) => {
  const columns = headColumns(access)
  return (
    operation: string,
    condition: Fragment
  ): Effect.Effect<RunHead | undefined, SqlError | RunStoreError> =>
    access.run(access.sql`SELECT ${columns} FROM fermata_runs WHERE ${condition}`).pipe(
      Effect.flatMap((rows) => readAll(headKind, operation, rows)),
      Effect.map(([head]) => head)
    )
}

const isMessageId = Schema.is(MessageId)

const MessageRow = Schema.Struct({
  run_id: RunId,
  message_id: MessageId,
  sent_at: Time,
  recipient: Schema.NullOr(RunId),
  intent: Schema.NullOr(Schema.Literal("end")),
  reopens: Schema.NullOr(Schema.fromJsonString(Reopens)),
  content: Schema.fromJsonString(Schema.Array(UserPart))
})

/** Rows of unread messages. */
export const messageKind: RowKind<typeof MessageRow.Type, SentMessage> = {
  row: MessageRow,
  what: ({ message_id, run_id }) =>
    `the message ${isMessageId(message_id) ? `${message_id} ` : ""}to the run ${displayId(run_id)}`,
  agreements: (row) => ({ recipient: row.recipient === null || isRunWithin(row.recipient, row.run_id) }),
  make: ({ content, intent, message_id, recipient, reopens, sent_at }) => ({
    messageId: message_id,
    content,
    at: sent_at,
    ...(recipient === null ? {} : { to: recipient }),
    ...(intent === null ? {} : { ends: true }),
    ...(reopens === null ? {} : { reopens })
  })
}

const BatchRow = Schema.Struct({
  runId: RunId,
  version: Schema.Finite,
  text: Schema.String,
  upto: SafeInteger,
  sequence: SafeInteger,
  count: SafeInteger,
  depth: SafeInteger
})

/** A row of a journal. `upto`: the revision up to which its run is read. `depth`: its distance from the requested run in the chain. */
export type BatchRow = typeof BatchRow.Type

const isDecodedBatch = verbatim(Schema.toType(BatchRow))

/** Rows of journals. */
export const batchKind: RowKind<BatchRow, BatchRow> = {
  row: BatchRow,
  quick: (row) => (isDecodedBatch(row) ? row : undefined),
  what: ({ runId }) => `the journal of the run ${displayId(runId)}`,
  make: (row) => row
}

/** A row of a journal before it is checked. A missing journal is a row of nulls. */
export type RawBatch = { readonly [Column in keyof BatchRow]: unknown }

/**
 * The columns of a journal row, in the order that {@link rawBatch} expects. Journals are read as arrays of values, because named columns
 * take 50% longer for thousands of rows. The rows of a single journal need neither `upto` nor `depth`.
 */
export const batchColumns = (upto = "0", depth = "0"): string =>
  `journal.run_id, ${upto} AS upto, ${depth} AS depth, journal.sequence, journal.count, journal.version, journal.events`

export const rawBatch = (values: ReadonlyArray<unknown>): RawBatch => {
  const [runId, upto, depth, sequence, count, version, text] = values
  return { runId, upto, depth, sequence, count, version, text }
}
