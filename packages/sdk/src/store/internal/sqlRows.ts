/**
 * Rows as a database returns them, checked before anything else looks at them: a file on disk is input.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import { Decision } from "../../domain/Decision.ts"
import { RequestId, Revision, RunId, SessionId } from "../../domain/Id.ts"
import { Interruption } from "../../domain/Interruption.ts"
import { verbatim } from "../../domain/internal/verbatim.ts"
import { UserPart } from "../../domain/Message.ts"
import { Status } from "../../domain/RunState.ts"
import type { PendingRequest, RunHead } from "../RunStore.ts"
import { RunStoreError, StoreUnreadable } from "../RunStoreError.ts"
import type { SentMessage } from "../SentMessage.ts"
import { type RequestEntry, RequestStatus } from "./requests.ts"

/** A whole number; some drivers return 64-bit columns as `bigint`. */
const Whole = Schema.Union([Schema.Finite, Schema.BigInt]).pipe(
  Schema.decodeTo(Schema.Finite, {
    decode: SchemaGetter.transform(Number),
    encode: SchemaGetter.transform((value: number) => value)
  })
)
const WholeRevision = Whole.pipe(Schema.decodeTo(Revision))

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
  lease_until: Schema.NullOr(Whole),
  created_at: Whole,
  updated_at: Whole
})

/** The same from drivers that return numbers. */
const NumericHeadRow = Schema.Struct({
  ...HeadRow.fields,
  parent_revision: Schema.NullOr(Revision),
  revision: Revision,
  lease_until: Schema.NullOr(Schema.Finite),
  created_at: Schema.Finite,
  updated_at: Schema.Finite
})

const requestFields = {
  run_id: RunId,
  session_id: SessionId,
  agent: Schema.String,
  status: RequestStatus,
  superseded_reason: Schema.NullOr(Schema.String),
  superseded_by: Schema.NullOr(RequestId)
}
const RequestRow = Schema.Struct({
  ...requestFields,
  request: Schema.fromJsonString(Interruption),
  decision: Schema.NullOr(Schema.fromJsonString(Decision))
})

/** The same after its texts were parsed. */
const ParsedRequestRow = Schema.Struct({
  ...requestFields,
  request: Interruption,
  decision: Schema.NullOr(Decision)
})

const MessageRow = Schema.Struct({
  message_id: Schema.String,
  sent_at: Whole,
  recipient: Schema.NullOr(RunId),
  intent: Schema.NullOr(Schema.Literal("end")),
  content: Schema.fromJsonString(Schema.Array(UserPart))
})

const batchFields = { runId: RunId, version: Schema.Finite, text: Schema.String }
const BatchRow = Schema.Struct({ ...batchFields, upto: Whole, sequence: Whole, count: Whole, depth: Whole })

/** A row of a journal, the revision that is asked for at most, and how many runs later the run is that is asked for. */
export type BatchRow = typeof BatchRow.Type

/** The same from drivers that return numbers. */
const NumericBatchRow = Schema.Struct({
  ...batchFields,
  upto: Schema.Finite,
  sequence: Schema.Finite,
  count: Schema.Finite,
  depth: Schema.Finite
})

const decoder = <A>(
  row: Schema.Codec<A, unknown>,
  what: string,
  isRow: (row: unknown) => row is A = (_row): _row is A => false
) => {
  const decode = Schema.decodeUnknownEffect(Schema.Array(row))
  return (operation: string, rows: ReadonlyArray<unknown>): Effect.Effect<ReadonlyArray<A>, RunStoreError> =>
    rows.every(isRow)
      ? Effect.succeed(rows)
      : Effect.mapError(
          decode(rows),
          () =>
            new RunStoreError({
              operation,
              reason: new StoreUnreadable({
                detail: `${what} is damaged or was written by a newer version of Fermata: update, or restore a backup.`
              })
            })
        )
}

const headRows = decoder(HeadRow, "the list of runs", verbatim(NumericHeadRow))
const decodeRequestRows = decoder(RequestRow, "the list of requests")
const isParsedRequestRow = verbatim(ParsedRequestRow)

/** Nearly all that is read is as it was written, and needs no decoding but that of its texts. */
const requestRows: typeof decodeRequestRows = (operation, rows) => {
  const parsed: Array<typeof RequestRow.Type> = []
  for (const row of rows) {
    const read = parsedRequestRow(row)
    if (read === undefined) return decodeRequestRows(operation, rows)
    parsed.push(read)
  }
  return Effect.succeed(parsed)
}

const parsedRequestRow = (row: unknown): typeof RequestRow.Type | undefined => {
  const { decision, request } = row as { readonly decision: unknown; readonly request: unknown }
  try {
    const parsed: unknown = {
      ...(row as object),
      request: JSON.parse(String(request)),
      decision: typeof decision === "string" ? JSON.parse(decision) : decision
    }
    // A text that says that there is none is not one of ours.
    return isParsedRequestRow(parsed) && (decision === null || parsed.decision !== null) ? parsed : undefined
  } catch {
    return undefined
  }
}

const messageRows = decoder(MessageRow, "the list of messages")

const decodeBatchRows = decoder(BatchRow, "a journal", verbatim(NumericBatchRow))

/** Rows of a journal that were read without names: thousands of objects with names are slow to come by. */
export const batchRows = (
  operation: string,
  rows: ReadonlyArray<ReadonlyArray<unknown>>
): Effect.Effect<ReadonlyArray<BatchRow>, RunStoreError> =>
  decodeBatchRows(
    operation,
    rows.map(([runId, upto, depth, sequence, count, version, text]) => ({
      runId,
      upto,
      depth,
      sequence,
      count,
      version,
      text
    }))
  )

/** The heads that rows hold. */
export const heads = (
  operation: string,
  rows: ReadonlyArray<unknown>
): Effect.Effect<ReadonlyArray<RunHead>, RunStoreError> =>
  Effect.map(headRows(operation, rows), (rows) => rows.map(headOf))

const headOf = (row: typeof HeadRow.Type): RunHead => ({
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
  ...(row.owner === null || row.lease_until === null
    ? {}
    : { lease: { owner: row.owner, until: row.lease_until } })
})

/** A request of the inbox and what became of it. */
export interface InboxEntry {
  readonly pending: PendingRequest
  readonly entry: RequestEntry
}

/** The requests that rows hold. */
export const requests = (
  operation: string,
  rows: ReadonlyArray<unknown>
): Effect.Effect<ReadonlyArray<InboxEntry>, RunStoreError> =>
  Effect.map(requestRows(operation, rows), (rows) => rows.map(requestOf))

const requestOf = (row: typeof RequestRow.Type): InboxEntry => ({
  pending: { request: row.request, runId: row.run_id, sessionId: row.session_id, agent: row.agent },
  entry: {
    request: row.request,
    status: row.status,
    ...(row.decision === null ? {} : { decision: row.decision }),
    ...(row.superseded_reason === null
      ? {}
      : {
          superseded: {
            reason: row.superseded_reason,
            ...(row.superseded_by === null ? {} : { by: row.superseded_by })
          }
        })
  }
})

/** The messages that rows hold. */
export const messages = (
  operation: string,
  rows: ReadonlyArray<unknown>
): Effect.Effect<ReadonlyArray<SentMessage>, RunStoreError> =>
  Effect.map(messageRows(operation, rows), (rows) =>
    rows.map(({ content, intent, message_id, recipient, sent_at }) => ({
      messageId: message_id,
      content,
      at: sent_at,
      ...(recipient === null ? {} : { to: recipient }),
      ...(intent === null ? {} : { ends: true })
    }))
  )
