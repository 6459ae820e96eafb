/**
 * Checks that the contents of a SQLite store are there as they were stored, that no reference to them is lost, and that no bytes stay
 * that nothing deletes.
 */
import { createHash } from "node:crypto"
import type { DatabaseSync } from "node:sqlite"
import type { Blob } from "@fermata/sdk"
import type { Findings } from "./findings.ts"
import type { Tables } from "./journals.ts"
import { type Row, rowOf, rowsOf } from "./rows.ts"

/** The tables of contents, which earlier versions do not have. */
export const contentTables = ["fermata_blobs", "fermata_blob_pieces", "fermata_blob_uses"] as const

/**
 * Checks the contents in the database: that each to which a run refers is whole, that each piece has its content, and that a content
 * without a run is deleted. Yields after each piece.
 */
export function* checkContents({ database, hasFiles }: Tables, found: Findings): Generator<void> {
  const used = rowsOf(
    database,
    `SELECT used.sha256, min(used.run_id) AS run_id, count(*) AS runs, content.blob, content.bytes FROM fermata_blob_uses AS used
      LEFT JOIN fermata_blobs AS content ON content.sha256 = used.sha256
      ${hasFiles ? "WHERE content.filed IS NULL" : ""} GROUP BY used.sha256`
  )
  for (const row of used) {
    const isWhole = row["blob"] !== null && (yield* isAsStored(database, row))
    if (!isWhole) found.problem(sentence(row, row["blob"] === null ? "is missing" : "is damaged"))
    yield
  }
  for (const { blob } of rowsOf(
    database,
    "SELECT DISTINCT blob FROM fermata_blob_pieces WHERE blob NOT IN (SELECT blob FROM fermata_blobs)"
  )) {
    found.problem(
      `There are pieces of a content that does not exist: delete the rows of ${String(blob)} in fermata_blob_pieces.`
    )
  }
  for (const { blob } of rowsOf(
    database,
    `SELECT blob FROM fermata_blobs WHERE unused IS NOT 1
      AND (sha256 IS NULL OR sha256 NOT IN (SELECT sha256 FROM fermata_blob_uses))`
  )) {
    found.problem(
      `No run refers to the content ${String(blob)} of fermata_blobs, and it is not deleted: set \`unused\` of its row to 1, and prune.`
    )
  }
}

/** The sentence about a damaged content to which runs refer. */
export const sentence = ({ run_id: runId, runs, sha256 }: Row, problem: string): string => {
  const others = Number(runs) - 1
  const more = others === 0 ? "" : others === 1 ? " and another run" : ` and ${others} other runs`
  return `The content ${String(sha256)} of the run ${String(runId)}${more} ${problem}: restore a backup.`
}

/** Whether a content has the length and the SHA-256 of its row, in pieces of the length with which they are read. */
function* isAsStored(
  database: DatabaseSync,
  { blob, bytes, sha256 }: Row
): Generator<undefined, boolean, unknown> {
  const hash = createHash("sha256")
  let length = 0
  for (const { content, place } of rowsOf(
    database,
    "SELECT place, content FROM fermata_blob_pieces WHERE blob = ? ORDER BY place",
    blob ?? null
  )) {
    if (!(content instanceof Uint8Array) || place !== length / pieceBytes) return false
    hash.update(content)
    length += content.length
    yield
  }
  return length === bytes && hash.digest("hex") === sha256
}

/** The length of each piece but the last one. */
export const pieceBytes = 256 * 1024

/** Checks that the store knows that a run refers to contents: otherwise it deletes them while the run is there. */
export const checkReferences = (
  { database, hasContents }: Tables,
  found: Findings,
  runId: string,
  refs: ReadonlyArray<Blob.BlobRef>
): void => {
  if (!hasContents) return
  const sql = "SELECT run_id FROM fermata_blob_uses WHERE run_id = ? AND sha256 = ?"
  for (const { sha256 } of refs) {
    if (rowOf(database, sql, runId, sha256) !== undefined) continue
    found.problem(
      `The run ${runId} refers to the content ${sha256}, which the store may delete, because its row in fermata_blob_uses is missing: restore a backup.`
    )
  }
}
