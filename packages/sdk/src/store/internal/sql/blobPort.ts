/**
 * The operations on contents in SQL.
 */
import * as Effect from "effect/Effect"
import type { BlobRef } from "../../../domain/Blob.ts"
import type { RunId } from "../../../domain/Id.ts"
import type { BlobFiles, BlobPort } from "../../BlobPort.ts"
import type { SqlAccess } from "./access.ts"
import { makeBlobReads } from "./blobReads.ts"
import { makeBlobRests } from "./blobRests.ts"
import type { makeBlobRows } from "./blobs.ts"
import { makeBlobWrites } from "./blobWrites.ts"
import { padded } from "./runs.ts"

/** Makes the operations on contents, and those that delete the bytes of deleted contents. */
export const makeBlobPort = (
  access: SqlAccess,
  rows: ReturnType<typeof makeBlobRows>,
  files: BlobFiles | undefined
) => {
  const { query, run, sql } = access
  const rests = makeBlobRests(access, rows, files)

  const port: Omit<BlobPort, "sweep"> = {
    ...makeBlobWrites(access, rows, rests, files),
    ...makeBlobReads(access, files),

    find: (contents) =>
      contents.length === 0
        ? Effect.succeed([])
        : Effect.map(
            query(
              "blobs.find",
              run(sql<BlobRef>`SELECT sha256, bytes FROM fermata_blobs WHERE ${sql.in("sha256", padded(contents))}
                ORDER BY sha256`)
            ),
            (found) => found.map(({ bytes, sha256 }) => ({ sha256, bytes: Number(bytes) }))
          ),

    uses: (runIds) =>
      runIds.length === 0
        ? Effect.succeed([])
        : Effect.map(
            query(
              "blobs.uses",
              run(sql<BlobRef & { readonly run_id: RunId }>`SELECT used.run_id, used.sha256, content.bytes
                FROM fermata_blob_uses AS used JOIN fermata_blobs AS content ON content.sha256 = used.sha256
                WHERE ${sql.in("run_id", padded(runIds))} ORDER BY used.run_id, used.sha256`)
            ),
            (found) =>
              found.map(({ bytes, run_id: runId, sha256 }) => ({
                runId,
                ref: { sha256, bytes: Number(bytes) }
              }))
          )
  }

  return { port, clean: rests.clean, sweep: rests.sweep }
}
