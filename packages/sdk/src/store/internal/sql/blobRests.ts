/**
 * Deletes the bytes of contents that are deleted or were never completed: their rows have no `sha256`. A file is deleted before its row, and
 * after the row is marked, so that its writer cannot complete it any more.
 */
import * as Effect from "effect/Effect"
import type { Timestamp } from "../../../domain/Id.ts"
import type { BlobFiles } from "../../BlobPort.ts"
import type { SqlAccess } from "./access.ts"
import { longAgo, type makeBlobRows, type Place } from "./blobs.ts"

/** Makes the operations that delete bytes. They are in transactions of their own. */
export const makeBlobRests = (
  access: SqlAccess,
  rows: ReturnType<typeof makeBlobRows>,
  files: BlobFiles | undefined
) => {
  const { query, run, sql, write } = access

  /** Deletes the bytes of contents that are deleted, or that no process has written to since a time. */
  const cleanBefore = Effect.fnUntraced(function* (operation: string, before: Timestamp) {
    let last = -1
    while (true) {
      const page = yield* query(
        operation,
        run(sql<Pick<Place, "blob" | "filed">>`SELECT blob, filed FROM fermata_blobs
          WHERE unused = 1 AND touched_at < ${before} AND sha256 IS NULL AND blob > ${last} ORDER BY blob LIMIT ${cleanedAtOnce}`)
      )
      for (const { blob, filed } of page)
        yield* (filed === null ? cleanOne : cleanFile)(operation, Number(blob), before)
      if (page.length < cleanedAtOnce) return
      last = Number(page.at(-1)!.blob)
    }
  })

  const cleanOne = Effect.fnUntraced(function* (operation: string, blob: number, before: Timestamp) {
    let left = true
    while (left) {
      const deleted = yield* write(
        operation,
        run(sql`DELETE FROM fermata_blob_pieces WHERE blob = ${blob} AND place IN (
          SELECT place FROM fermata_blob_pieces WHERE blob = ${blob} ORDER BY place DESC LIMIT ${deletedAtOnce}
        ) AND EXISTS (SELECT 1 FROM fermata_blobs WHERE blob = ${blob} AND sha256 IS NULL AND touched_at < ${before})
        RETURNING place`),
        Effect.succeedNone
      )
      left = deleted.length === deletedAtOnce
    }
    yield* write(
      operation,
      run(sql`DELETE FROM fermata_blobs WHERE blob = ${blob} AND sha256 IS NULL AND touched_at < ${before}
        AND NOT EXISTS (SELECT 1 FROM fermata_blob_pieces WHERE blob = ${blob})`),
      Effect.succeedNone
    )
  })

  /**
   * Deletes the file of a content that was deleted or never completed, and then its row. A process without the directory leaves both to one
   * that has it.
   */
  const cleanFile = Effect.fnUntraced(function* (operation: string, blob: number, before: Timestamp) {
    if (files === undefined) return
    const marked = yield* write(
      operation,
      run(sql`UPDATE fermata_blobs SET touched_at = ${longAgo}
        WHERE blob = ${blob} AND sha256 IS NULL AND touched_at < ${before} RETURNING blob`),
      Effect.succeedNone
    )
    if (marked.length === 0) return
    yield* files.remove(blob)
    yield* write(operation, run(sql`DELETE FROM fermata_blobs WHERE blob = ${blob}`), Effect.succeedNone)
  })

  /** Deletes the bytes of deleted contents. What fails is left to the next `prune`. */
  const clean = Effect.ignore(cleanBefore("prune", longAgo + 1))

  /** Deletes unused contents that were last stored before a time, and the bytes that killed processes left. Returns the number of contents. */
  const sweep = Effect.fnUntraced(function* (operation: string, before: Timestamp) {
    const count = yield* rows.sweep(operation, before)
    yield* cleanBefore(operation, Math.max(before, longAgo + 1))
    return count
  })

  /** Leaves the bytes of a content that could not be written to {@link clean}, or else to a sweep. */
  const abandon = (operation: string, blob: number) =>
    Effect.ignore(
      Effect.andThen(
        write(
          operation,
          run(sql`UPDATE fermata_blobs SET touched_at = ${longAgo} WHERE blob = ${blob} AND sha256 IS NULL`),
          Effect.succeedNone
        ),
        clean
      )
    )

  return { clean, sweep, abandon }
}

const deletedAtOnce = 16
const cleanedAtOnce = 100
