/**
 * Rows as a database returns them, checked before anything else looks at them: a file on disk is input.
 *
 * A row that cannot be read concerns its own run alone. What asks about that run gets an error that names it; lists go on with the
 * others.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import { Revision, RunId, SessionId } from "../../../domain/Id.ts"
import { verbatim } from "../../../domain/internal/verbatim.ts"
import { UserPart } from "../../../domain/Message.ts"
import { Status } from "../../../domain/RunState.ts"
import type { RunStoreError } from "../../RunStoreError.ts"
import type { RunHead } from "../../RunStorePort.ts"
import { MessageId, type SentMessage } from "../../SentMessage.ts"
import { latestTime } from "../bounds.ts"
import { isCancellable } from "../requests.ts"
import type { SqlAccess } from "./access.ts"
import { damagedColumns, readAll, type RowKind, displayId } from "./damage.ts"
import { isLeased } from "./lease.ts"

/** An integer that is distinct from its neighbours; some drivers return 64-bit columns as `bigint`. */
export const SafeInteger = Schema.Union([Schema.Finite, Schema.BigInt]).pipe(
  Schema.decodeTo(Schema.Finite, {
    decode: SchemaGetter.transform(Number),
    encode: SchemaGetter.transform((value: number) => value)
  })
)
const WholeRevision = SafeInteger.pipe(Schema.decodeTo(Revision))

/** A time that has a date: what is beyond cannot be shown. */
export const Time = SafeInteger.check(Schema.isBetween({ minimum: 0, maximum: latestTime }))

/** Whether a column has a time. One that keeps whole milliseconds keeps a part of one no better. */
export const isSameTime = (column: number | null, time: number | undefined): boolean =>
  column === null || time === undefined ? column === null && time === undefined : Math.abs(column - time) < 1

const HeadRow = Schema.Struct({
  run_id: RunId,
  session_id: SessionId,
  parent_run_id: Schema.NullOr(RunId),
  parent_revision: Schema.NullOr(WholeRevision),
  agent: Schema.String,
  answered_by: Schema.NullOr(Schema.String),
  status: Status,
  revision: WholeRevision,
  /** Only while the lease is in force. */
  owner: Schema.NullOr(Schema.String),
  lease_until: Schema.NullOr(Time),
  created_at: Time,
  updated_at: Time,
  // Claiming, cancelling and starting the next run go by these.
  epoch: WholeRevision,
  cancel_reason: Schema.NullOr(Schema.String),
  follows: Schema.NullOr(Schema.String)
})

/** Whether a row is what decoding would make of it, as from drivers that return numbers. */
const isDecodedHead = verbatim(Schema.toType(HeadRow))

/** What is wrong with the entry of a run whose columns cannot be what they say. */
export const damagedEntry = (runId: RunId, columns: ReadonlyArray<string>): string =>
  damagedColumns(`the entry of the run ${displayId(runId)}`, columns)

/** The heads of runs. */
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

/** The columns of a head. A lease that is over has no owner. */
export const headColumns = (
  access: SqlAccess
) => access.sql`run_id, session_id, parent_run_id, parent_revision, agent,
  answered_by, status, revision, CASE WHEN ${isLeased(access)} THEN owner END AS owner, lease_until, created_at, updated_at,
  epoch, cancel_reason, follows`

/** Makes the search for the head of the run to which a condition applies, by its id or by its place. */
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

/** Whether the run is the one that is stored, or that of a sub-agent in it. */
export const isIn = (runId: string, root: string): boolean =>
  runId === root || (runId.startsWith(`${root}.t`) && /^\.t\d+\.\d+/.test(runId.slice(root.length)))

const isMessageId = Schema.is(MessageId)

const MessageRow = Schema.Struct({
  run_id: RunId,
  message_id: MessageId,
  sent_at: Time,
  recipient: Schema.NullOr(RunId),
  intent: Schema.NullOr(Schema.Literal("end")),
  content: Schema.fromJsonString(Schema.Array(UserPart))
})

/** Messages that wait. */
export const messageKind: RowKind<typeof MessageRow.Type, SentMessage> = {
  row: MessageRow,
  what: ({ message_id, run_id }) =>
    `the message ${isMessageId(message_id) ? `${message_id} ` : ""}to the run ${displayId(run_id)}`,
  agreements: (row) => ({ recipient: row.recipient === null || isIn(row.recipient, row.run_id) }),
  make: ({ content, intent, message_id, recipient, sent_at }) => ({
    messageId: message_id,
    content,
    at: sent_at,
    ...(recipient === null ? {} : { to: recipient }),
    ...(intent === null ? {} : { ends: true })
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

/** A row of a journal, the revision that is asked for at most, and how many runs later the run is that is asked for. */
export type BatchRow = typeof BatchRow.Type

const isDecodedBatch = verbatim(Schema.toType(BatchRow))

/** The rows of journals. */
export const batchKind: RowKind<BatchRow, BatchRow> = {
  row: BatchRow,
  quick: (row) => (isDecodedBatch(row) ? row : undefined),
  what: ({ runId }) => `the journal of the run ${displayId(runId)}`,
  make: (row) => row
}

/** A row of a journal before it is checked. The row of a journal that is not there is one of nulls. */
export type RawBatch = { readonly [Column in keyof BatchRow]: unknown }

/**
 * The columns that {@link rawBatch} names. The rows of journals are read as values, since thousands of rows with names take half as long
 * again; their columns are counted here and nowhere else. The rows of one journal need neither `upto` nor `depth`.
 */
export const batchColumns = (upto = "0", depth = "0"): string =>
  `journal.run_id, ${upto} AS upto, ${depth} AS depth, journal.sequence, journal.count, journal.version, journal.events`

export const rawBatch = (values: ReadonlyArray<unknown>): RawBatch => {
  const [runId, upto, depth, sequence, count, version, text] = values
  return { runId, upto, depth, sequence, count, version, text }
}
