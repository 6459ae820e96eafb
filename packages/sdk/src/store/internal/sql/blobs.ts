/**
 * Contents in SQL: the rows of contents, and the references of runs to them.
 *
 * A content exists while its row has a `sha256`. Deleting it clears this column, in the transaction that removes the last reference; the bytes
 * are deleted by transactions of their own, which also remove what a killed process left. A reference is written under a lock of the
 * content's row, so that the content is not deleted meanwhile. Writers lock contents in the order of their SHA-256.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import type { BlobRef, Sha256 } from "../../../domain/Blob.ts"
import type { RunId, Timestamp } from "../../../domain/Id.ts"
import { graceTime } from "../../BlobPort.ts"
import type { RunStoreError } from "../../RunStoreError.ts"
import { bySha256, missingBlob } from "../blobs.ts"
import { latestTime } from "../bounds.ts"
import type { SqlAccess } from "./access.ts"

/** The time of a row whose bytes can be deleted at once. */
export const longAgo = -latestTime

/** The reference of a run. */
interface Use {
  readonly runId: RunId
  readonly ref: BlobRef
}

/** The part of a content's row with which its bytes are found. */
export interface Place {
  readonly blob: number
  readonly bytes: number
  /** 1 if its bytes are in a file. */
  readonly filed: number | null
}

/** The references of a run. */
export const usesOf = (runId: RunId, refs: ReadonlyArray<BlobRef>): ReadonlyArray<Use> =>
  refs.map((ref) => ({ runId, ref }))

/** Makes the operations on rows of contents. Those without a stated transaction run inside one. */
export const makeBlobRows = (access: SqlAccess) => {
  const { forUpdate, lockNumber, query, run, sql, write } = access

  /** Excludes other transactions that create a content. */
  const lockName = (sha256: string) => lockNumber(Number.parseInt(sha256.slice(0, 13), 16))

  const hasUse = (sha256: Sha256) =>
    Effect.map(
      run(sql`SELECT run_id FROM fermata_blob_uses WHERE sha256 = ${sha256} LIMIT 1`),
      (rows) => rows.length > 0
    )

  /** Writes references. Fails if the store lacks a content. */
  const refer = Effect.fnUntraced(function* (
    operation: string,
    uses: ReadonlyArray<Use>
  ): Effect.fn.Return<void, SqlError | RunStoreError> {
    for (const { ref, runId } of uses.toSorted((one, other) => bySha256(one.ref, other.ref))) {
      const [row] = yield* run(sql<{ readonly blob: number; readonly bytes: number }>`SELECT blob, bytes
        FROM fermata_blobs WHERE sha256 = ${ref.sha256} ${forUpdate}`)
      if (row === undefined || Number(row.bytes) !== ref.bytes) return yield* missingBlob(operation, ref)
      const [added] =
        yield* run(sql`INSERT INTO fermata_blob_uses (run_id, sha256) VALUES (${runId}, ${ref.sha256})
        ON CONFLICT DO NOTHING RETURNING run_id`)
      // A reference that the run already has was counted before.
      if (added === undefined) continue
      yield* run(sql`UPDATE fermata_blobs SET unused = NULL, pending = CASE WHEN pending > 0 THEN pending - 1 ELSE 0 END
        WHERE blob = ${row.blob}`)
    }
  })

  /** Deletes the references of a run. Returns the contents, for {@link release}. */
  const forget = (runId: RunId): Effect.Effect<ReadonlyArray<Sha256>, SqlError> =>
    Effect.map(
      run(
        sql<{
          readonly sha256: Sha256
        }>`DELETE FROM fermata_blob_uses WHERE run_id = ${runId} RETURNING sha256`
      ),
      (rows) => rows.map(({ sha256 }) => sha256)
    )

  const remove = (blob: number) =>
    run(sql`UPDATE fermata_blobs SET sha256 = NULL, unused = 1, touched_at = ${longAgo} WHERE blob = ${blob}`)

  /** Deletes those of the contents that no run refers to any more, unless a process is about to refer to them. */
  const release = Effect.fnUntraced(function* (
    contents: ReadonlyArray<Sha256>,
    now: Timestamp
  ): Effect.fn.Return<void, SqlError> {
    for (const sha256 of Array.from(new Set(contents)).sort()) {
      const [row] = yield* run(sql<
        Record<"blob" | "pending" | "touched_at", number>
      >`SELECT blob, pending, touched_at
        FROM fermata_blobs WHERE sha256 = ${sha256} ${forUpdate}`)
      if (row === undefined || (yield* hasUse(sha256))) continue
      const isExpected = Number(row.pending) > 0 && Number(row.touched_at) >= now - graceTime
      if (isExpected) yield* run(sql`UPDATE fermata_blobs SET unused = 1 WHERE blob = ${row.blob}`)
      else yield* remove(row.blob)
    }
  })

  /** Deletes the unused contents that were last stored before a time, in transactions of its own. Returns their number. */
  const sweep = Effect.fnUntraced(function* (operation: string, before: Timestamp) {
    let count = 0
    let after = longAgo
    let last = -1
    while (true) {
      const page = yield* query(
        operation,
        run(sql<
          Record<"blob" | "touched_at", number> & { readonly sha256: Sha256 }
        >`SELECT blob, sha256, touched_at
          FROM fermata_blobs WHERE unused = 1 AND touched_at >= ${after} AND touched_at < ${before} AND (touched_at > ${after} OR blob > ${last})
            AND sha256 IS NOT NULL
          ORDER BY touched_at, blob LIMIT ${sweptAtOnce}`)
      )
      count += yield* write(
        operation,
        Effect.gen(function* () {
          let swept = 0
          // In the order of all writers.
          for (const { blob } of page.toSorted(bySha256)) {
            const [row] = yield* run(sql<{ readonly sha256: Sha256 }>`SELECT sha256 FROM fermata_blobs
              WHERE blob = ${blob} AND sha256 IS NOT NULL AND touched_at < ${before} ${forUpdate}`)
            if (row === undefined || (yield* hasUse(row.sha256))) continue
            yield* remove(blob)
            swept += 1
          }
          return swept
        }),
        Effect.succeedNone
      )
      const end = page.at(-1)
      if (end === undefined || page.length < sweptAtOnce) return count
      after = Number(end.touched_at)
      last = Number(end.blob)
    }
  })

  /** Deletes the references of runs that a process of an earlier version removed, in transactions of its own. Returns the number of runs. */
  const dropOrphans = Effect.fnUntraced(function* (operation: string) {
    let count = 0
    let after = ""
    while (true) {
      const page = yield* query(
        operation,
        run(sql<{ readonly run_id: RunId; readonly is_stored: number | boolean }>`SELECT run_id,
            EXISTS (SELECT 1 FROM fermata_runs AS run WHERE run.run_id = listed.run_id) AS is_stored
          FROM (SELECT DISTINCT run_id FROM fermata_blob_uses WHERE run_id > ${after} ORDER BY run_id LIMIT ${sweptAtOnce}) AS listed
          ORDER BY run_id`)
      )
      for (const { is_stored: isStored, run_id: runId } of page) {
        if (isStored) continue
        yield* write(operation, dropOrphansOf(runId), Effect.succeedNone)
        count += 1
      }
      if (page.length < sweptAtOnce) return count
      after = page.at(-1)!.run_id
    }
  })

  const dropOrphansOf = Effect.fnUntraced(function* (runId: RunId) {
    const rows = yield* run(sql<{ readonly sha256: Sha256 }>`SELECT sha256 FROM fermata_blob_uses
      WHERE run_id = ${runId} ORDER BY sha256`)
    for (const { sha256 } of rows) {
      // A run with this id may be created again now. It locks the content first, too.
      yield* run(sql`SELECT blob FROM fermata_blobs WHERE sha256 = ${sha256} ${forUpdate}`)
      yield* run(sql`DELETE FROM fermata_blob_uses WHERE run_id = ${runId} AND sha256 = ${sha256}
        AND NOT EXISTS (SELECT 1 FROM fermata_runs WHERE run_id = ${runId})`)
    }
    yield* release(
      rows.map(({ sha256 }) => sha256),
      yield* Clock.currentTimeMillis
    )
  })

  return { lockName, refer, forget, release, sweep, dropOrphans }
}

const sweptAtOnce = 100
