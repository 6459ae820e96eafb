/**
 * Checkpoints in SQL: written in the transaction of a park or a new run, found by the chain of a run (`chain.ts`), deleted with the run.
 *
 * A run has at most one checkpoint, its newest. Its chunks stay when a later checkpoint replaces it, because checkpoints of later runs
 * refer to them. A run is deleted after all runs that build on it, so no reference to a deleted chunk remains.
 */
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import type { Revision, RunId } from "../../../domain/Id.ts"
import type { Checkpoint, NewCheckpoint } from "../../RunStorePort.ts"
import type { SqlAccess } from "./access.ts"
import type { Start } from "./chain.ts"

/** Makes the operations on checkpoints. */
export const makeCheckpoints = ({ run, sql }: SqlAccess) => {
  /** Reads a checkpoint with all its chunks; `undefined` if one is missing. */
  const read = Effect.fnUntraced(function* ({ revision, runId }: Start, version: number) {
    const [row] = yield* sql<{ readonly state: unknown; readonly chunks: unknown }>`SELECT state, chunks
      FROM fermata_checkpoints WHERE run_id = ${runId} AND revision = ${revision} AND version = ${version}`
    if (row === undefined || typeof row.state !== "string") return undefined
    // UNION, not UNION ALL: it removes duplicates, so a damaged row that refers to itself cannot loop.
    const rows = yield* run(sql<
      Record<"messages" | "place", unknown>
    >`WITH RECURSIVE line (run_id, first, upto, base_run_id) AS (
        SELECT run_id, base_chunks, chunks, base_run_id FROM fermata_checkpoints WHERE run_id = ${runId}
        UNION
        SELECT base.run_id, base.base_chunks, CASE WHEN line.first < line.upto THEN line.first ELSE line.upto END,
          base.base_run_id
        FROM line JOIN fermata_checkpoints AS base ON base.run_id = line.base_run_id
      )
      SELECT chunk.place, chunk.messages FROM line JOIN fermata_chunks AS chunk
        ON chunk.run_id = line.run_id AND chunk.place >= line.first AND chunk.place < line.upto
        AND chunk.version = ${version}`)
    const chunks: Array<string> = []
    let found = 0
    for (const { messages: text, place } of rows) {
      const index = Number(place)
      if (typeof text !== "string" || chunks[index] !== undefined) return undefined
      chunks[index] = text
      found += 1
    }
    if (found !== Number(row.chunks) || found !== chunks.length) return undefined
    return { runId, revision: revision as Revision, version, chunks, state: row.state } satisfies Checkpoint
  })

  const writeChunk = (runId: RunId, place: number, version: number, messages: string) =>
    sql`INSERT INTO fermata_chunks (run_id, place, version, messages) VALUES (${runId}, ${place}, ${version}, ${messages})
      ON CONFLICT (run_id, place) DO UPDATE SET version = excluded.version, messages = excluded.messages`

  /** Writes a checkpoint, inside a transaction, unless the run has a later one. */
  const write = Effect.fnUntraced(function* (
    runId: RunId,
    revision: number,
    { base, chunks, state, version }: NewCheckpoint
  ): Effect.fn.Return<void, SqlError> {
    const before = base?.chunks ?? 0
    const total = before + chunks.length
    const rows =
      base?.runId === runId
        ? yield* sql`UPDATE fermata_checkpoints
            SET revision = ${revision}, version = ${version}, chunks = ${total}, state = ${state}
            WHERE run_id = ${runId} AND revision <= ${revision} RETURNING run_id`
        : yield* sql`INSERT INTO fermata_checkpoints AS known
              (run_id, revision, version, chunks, base_run_id, base_chunks, state)
            VALUES (${runId}, ${revision}, ${version}, ${total}, ${base?.runId ?? null}, ${before}, ${state})
            ON CONFLICT (run_id) DO UPDATE SET revision = excluded.revision, version = excluded.version,
              chunks = excluded.chunks, base_run_id = excluded.base_run_id, base_chunks = excluded.base_chunks,
              state = excluded.state
            WHERE known.revision <= excluded.revision RETURNING run_id`
    if (rows.length === 0) return
    for (const [index, text] of chunks.entries()) yield* writeChunk(runId, before + index, version, text)
  })

  /** Deletes the checkpoint and the chunks of a run, inside a transaction. */
  const erase = Effect.fnUntraced(function* (runId: RunId): Effect.fn.Return<void, SqlError> {
    yield* sql`DELETE FROM fermata_chunks WHERE run_id = ${runId}`
    yield* sql`DELETE FROM fermata_checkpoints WHERE run_id = ${runId}`
  })

  return { read, write, erase }
}
