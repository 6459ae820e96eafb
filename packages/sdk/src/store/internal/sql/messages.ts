/**
 * Messages in SQL: `send` stores them, and an append marks those that its events contain as read.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SqlError } from "effect/sql/SqlError"
import type { RunId } from "../../../domain/Id.ts"
import { defined } from "../../../domain/internal/defined.ts"
import { RunEnded } from "../../../domain/RunError.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import { RunNotFound, type RunStoreError } from "../../RunStoreError.ts"
import type { RunStorePort } from "../../RunStorePort.ts"
import type { Receipt, SentMessage } from "../../SentMessage.ts"
import { blobsIn } from "../blobs.ts"
import { decodeMessage, digestOf, isSentTo, idConflict, takenBy } from "../messages.ts"
import type { SqlAccess } from "./access.ts"
import { type makeBlobRows, usesOf } from "./blobs.ts"
import { readAll } from "./damage.ts"
import { makeHeads, messageKind } from "./rows.ts"

/** Makes the operations on messages. */
export const makeMessages = (access: SqlAccess, blobs: ReturnType<typeof makeBlobRows>) => {
  const { forUpdate, notify, run, sql, write } = access
  const heads = makeHeads(access)
  /** Inserts a message after all others of its run, unless its id is known. A message without content is one that the journal contains. */
  const insert = (
    runId: RunId,
    { at, content, ends, messageId, reopens, to }: Receipt & Partial<SentMessage>
  ) =>
    sql`INSERT INTO fermata_messages (run_id, message_id, position, sent_at, status, recipient, intent, reopens, content, digest, agent) VALUES (
        ${runId}, ${messageId},
        (SELECT coalesce(max(position), 0) + 1 FROM fermata_messages WHERE run_id = ${runId}), ${at},
        ${content === undefined ? "journaled" : "waiting"}, ${to ?? null}, ${ends === true ? "end" : null},
        ${reopens === undefined ? null : JSON.stringify(reopens)},
        ${content === undefined ? null : JSON.stringify(content)},
        ${content === undefined ? null : digestOf({ content, ...defined({ ends, reopens }) })},
        (SELECT agent FROM fermata_runs WHERE run_id = ${runId})
      ) ON CONFLICT DO NOTHING RETURNING message_id`

  /** The receipt, the recipient and the digest of the message with this id. */
  const recorded = (runId: RunId, messageId: string) =>
    Effect.map(
      sql<{
        readonly sent_at: number
        readonly recipient: string | null
        readonly digest: string | null
      }>`SELECT sent_at, recipient, digest
        FROM fermata_messages WHERE run_id = ${runId} AND message_id = ${messageId}`,
      ([row]) =>
        row === undefined
          ? undefined
          : {
              receipt: { messageId, at: Number(row.sent_at) },
              ...(row.recipient === null ? {} : { to: row.recipient }),
              ...(row.digest === null ? {} : { digest: row.digest })
            }
    )

  const send: RunStorePort["send"] = Effect.fnUntraced(function* (runId, input) {
    const now = yield* Clock.currentTimeMillis
    const message = yield* Effect.fromResult(decodeMessage(input, now, runId))
    const { at, messageId } = message
    return yield* write(
      "send",
      Effect.gen(function* () {
        // The lock orders a message and a park, or the end of the run: the later one sees the earlier one.
        const head = yield* heads("send", sql`run_id = ${runId} ${forUpdate}`)
        if (head === undefined) return yield* new RunNotFound({ runId })
        const known = yield* recorded(runId, messageId)
        const wrong = known === undefined ? undefined : idConflict(known, message)
        if (wrong !== undefined) return yield* wrong
        if (known !== undefined) return known.receipt
        if (!isSentTo(head.status, message)) return yield* new RunEnded({ runId, status: head.status })
        yield* insert(runId, message)
        const refs = blobsIn([message])
        if (refs.length > 0) yield* blobs.refer("send", usesOf(runId, refs))
        yield* notify
        return { messageId, at }
      }),
      Effect.map(recorded(runId, messageId), (known) => Option.fromUndefinedOr(known?.receipt))
    )
  })

  return {
    send,

    /**
     * Marks the messages that events contain as read, inside the transaction that appends the events. Returns false if the journal already
     * contains one of them. A message that was never sent is recorded too, so that it cannot be sent later.
     */
    take: Effect.fnUntraced(function* (runId: RunId, events: ReadonlyArray<RunEvent>) {
      for (const taken of takenBy(events)) {
        const [waited] = yield* sql`UPDATE fermata_messages SET status = 'journaled', content = NULL
          WHERE run_id = ${runId} AND message_id = ${taken.messageId} AND status = 'waiting' RETURNING message_id`
        if (waited === undefined && (yield* insert(runId, taken)).length === 0) return false
      }
      return true
    }),

    /** Inserts a message that another store received. */
    record: (runId: RunId, message: SentMessage): Effect.Effect<unknown, SqlError> => insert(runId, message),

    /** See `RunStorePort.messages`. Runs inside `query` or `read`. */
    waiting: (
      operation: string,
      runId: RunId
    ): Effect.Effect<ReadonlyArray<SentMessage>, SqlError | RunStoreError> =>
      Effect.flatMap(
        run(sql`SELECT run_id, message_id, sent_at, recipient, intent, reopens, content FROM fermata_messages
          WHERE run_id = ${runId} AND status = 'waiting' ORDER BY position`),
        (rows) => readAll(messageKind, operation, rows)
      )
  }
}
