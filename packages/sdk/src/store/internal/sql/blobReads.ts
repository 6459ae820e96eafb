/**
 * Reading contents in SQL, a piece at a time, and finding those that are missing or changed.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { BlobRef, Sha256 } from "../../../domain/Blob.ts"
import type { RunId } from "../../../domain/Id.ts"
import { makeHasher } from "../../../domain/internal/sha256.ts"
import type { BlobFiles, BlobPort, DamagedBlob } from "../../BlobPort.ts"
import { BlobMissing, RunStoreError } from "../../RunStoreError.ts"
import { pieceBytes } from "../blobs.ts"
import { position } from "../bounds.ts"
import { unreadable } from "../journal.ts"
import type { SqlAccess } from "./access.ts"
import type { Place } from "./blobs.ts"

/** Makes the operations that read contents. */
export const makeBlobReads = (
  { query, run, sql }: SqlAccess,
  files: BlobFiles | undefined
): Pick<BlobPort, "read" | "damaged"> => {
  const placeOf = (operation: string, sha256: Sha256) =>
    Effect.flatMap(
      query(
        operation,
        run(sql<Place>`SELECT blob, bytes, filed FROM fermata_blobs WHERE sha256 = ${sha256}`)
      ),
      ([row]) =>
        row === undefined
          ? Effect.fail(new RunStoreError({ operation, reason: new BlobMissing({ sha256 }) }))
          : Effect.succeed({ blob: Number(row.blob), bytes: Number(row.bytes), filed: row.filed })
    )

  const storedPiece = (operation: string, { blob, filed }: Place, place: number, length: number) => {
    if (filed === null)
      return Effect.map(
        query(
          operation,
          run(sql<{ readonly content: Uint8Array }>`SELECT content FROM fermata_blob_pieces
            WHERE blob = ${blob} AND place = ${place}`)
        ),
        ([row]) => row?.content
      )
    if (files === undefined)
      return unreadable(operation, "the content is in the directory of contents: open the store with it.")
    return files.read(blob, place * pieceBytes, length)
  }

  const readPiece = (
    operation: string,
    sha256: Sha256,
    at: Place,
    place: number
  ): Effect.Effect<Uint8Array, RunStoreError> => {
    const length = Math.min(pieceBytes, at.bytes - place * pieceBytes)
    return Effect.flatMap(storedPiece(operation, at, place, length), (content) => {
      if (content?.length === length) return Effect.succeed(content)
      // The content may have been deleted and stored again meanwhile.
      return Effect.flatMap(placeOf(operation, sha256), (found) =>
        found.blob === at.blob
          ? unreadable(operation, `the content ${sha256} is damaged: restore the store from a backup.`)
          : readPiece(operation, sha256, found, place)
      )
    })
  }

  const read = (operation: string, sha256: Sha256, options?: Parameters<BlobPort["read"]>[1]) =>
    Stream.unwrap(
      Effect.map(placeOf(operation, sha256), (found) => {
        const from = position(options?.from, 0)
        const to = Math.min(found.bytes, from + position(options?.length, found.bytes))
        return Stream.unfold(from, (at) => {
          if (at >= to) return Effect.succeed(undefined)
          const place = Math.floor(at / pieceBytes)
          const start = place * pieceBytes
          const piece = Effect.map(readPiece(operation, sha256, found, place), (content) => {
            const end = Math.min(to, start + content.length)
            return [content.subarray(at - start, end - start), end] as const
          })
          // Pieces that nothing uses any more are freed between turns of the event loop.
          return at === from ? piece : Effect.andThen(Effect.yieldNow, piece)
        })
      })
    )

  /** What is wrong with a content that runs refer to; nothing if they were removed meanwhile. */
  const damageOf = Effect.fnUntraced(function* (sha256: Sha256) {
    const hasher = makeHasher()
    const whole = Stream.runForEach(read("blobs.damaged", sha256), (piece) =>
      Effect.sync(() => hasher.update(piece))
    )
    const problem = yield* Effect.matchEffect(whole, {
      onSuccess: () => Effect.sync(() => (hasher.digest() === sha256 ? undefined : ("changed" as const))),
      onFailure: (error): Effect.Effect<DamagedBlob["problem"], RunStoreError> => {
        if (error.reason._tag === "BlobMissing") return Effect.succeed("missing")
        return error.reason._tag === "StoreUnreadable" ? Effect.succeed("changed") : Effect.fail(error)
      }
    })
    if (problem === undefined) return []
    const used = yield* query(
      "blobs.damaged",
      run(sql<{ readonly run_id: RunId }>`SELECT run_id FROM fermata_blob_uses WHERE sha256 = ${sha256}
        ORDER BY run_id LIMIT 100`)
    )
    const runIds = used.map(({ run_id }) => run_id)
    return runIds.length === 0 ? [] : [{ sha256, problem, runIds }]
  })

  const damaged = Stream.unfold("", (after) =>
    Effect.map(
      query(
        "blobs.damaged",
        run(sql<Pick<BlobRef, "sha256">>`SELECT DISTINCT sha256 FROM fermata_blob_uses WHERE sha256 > ${after}
          ORDER BY sha256 LIMIT ${checkedAtOnce}`)
      ),
      (page) => {
        const last = page.at(-1)
        return last === undefined ? undefined : ([page, last.sha256] as const)
      }
    )
  ).pipe(
    Stream.flatMap((page) => Stream.fromIterable(page)),
    Stream.mapEffect(({ sha256 }) => damageOf(sha256)),
    Stream.flatMap((found) => Stream.fromIterable(found))
  )

  return { read: (sha256, options) => read("blobs.read", sha256, options), damaged }
}

const checkedAtOnce = 100
