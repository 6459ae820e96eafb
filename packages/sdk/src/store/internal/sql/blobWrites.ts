/**
 * Writing contents in SQL. A content is written in short transactions, in pieces, and becomes visible in the last one.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Sink from "effect/Sink"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import type { BlobRef, Sha256 } from "../../../domain/Blob.ts"
import type { Timestamp } from "../../../domain/Id.ts"
import type { BlobPort } from "../../BlobPort.ts"
import { RunStoreError, StoreFault } from "../../RunStoreError.ts"
import { bySha256 } from "../blobs.ts"
import { makeHasher, sha256Of } from "../sha256.ts"
import type { SqlAccess } from "./access.ts"
import type { makeBlobRests } from "./blobRests.ts"
import { longAgo, type makeBlobRows } from "./blobs.ts"
import { inEqualPieces, inPieces } from "./pieces.ts"

/** Makes the operations that store contents. */
export const makeBlobWrites = (
  access: SqlAccess,
  { lockName }: ReturnType<typeof makeBlobRows>,
  { abandon, clean }: ReturnType<typeof makeBlobRests>
): Pick<BlobPort, "put" | "putAll"> => {
  const { forUpdate, run, sql, write } = access

  const insertPieces = Effect.fnUntraced(function* (
    blob: number,
    first: number,
    pieces: ReadonlyArray<Uint8Array>
  ) {
    for (const [index, content] of pieces.entries())
      yield* run(sql`INSERT INTO fermata_blob_pieces (blob, place, content) VALUES (${blob}, ${first + index}, ${content})
        ON CONFLICT (blob, place) DO UPDATE SET content = excluded.content`)
  })

  /** Counts a further use of a content, if it exists. */
  const expectUse = (sha256: Sha256, at: Timestamp) =>
    Effect.map(
      run(sql`UPDATE fermata_blobs SET pending = pending + 1, touched_at = ${at}
        WHERE sha256 = ${sha256} RETURNING blob`),
      (rows) => rows.length > 0
    )

  /** Begins a content whose SHA-256 is unknown. Returns its number. */
  const begin = (operation: string) =>
    Effect.flatMap(Clock.currentTimeMillis, (at) => {
      const blob = randomNumber()
      return Effect.as(
        write(
          operation,
          run(sql`INSERT INTO fermata_blobs (blob, bytes, pending, touched_at, unused) VALUES (${blob}, 0, 0, ${at}, 1)
            ON CONFLICT (blob) DO NOTHING`),
          Effect.succeedNone
        ),
        blob
      )
    })

  /** Adds to the pieces of a content that is being written, and keeps it from being swept. */
  const extend = (operation: string, blob: number, first: number, pieces: ReadonlyArray<Uint8Array>) =>
    Effect.flatMap(Clock.currentTimeMillis, (at) =>
      write(
        operation,
        Effect.gen(function* () {
          const [own] = yield* run(sql`UPDATE fermata_blobs SET touched_at = ${at}
            WHERE blob = ${blob} AND sha256 IS NULL AND touched_at > ${longAgo} RETURNING blob`)
          if (own === undefined) return yield* abandoned(operation)
          yield* insertPieces(blob, first, pieces)
        }),
        Effect.succeedNone
      )
    )

  /** Makes a written content visible, inside a transaction. If the store has it by now, the new pieces are left to {@link clean}. */
  const complete = Effect.fnUntraced(function* (
    operation: string,
    blob: number,
    { bytes, sha256 }: BlobRef,
    at: Timestamp
  ): Effect.fn.Return<void, SqlError | RunStoreError> {
    yield* lockName(sha256)
    const [known] = yield* run(sql<{ readonly blob: number }>`SELECT blob FROM fermata_blobs
      WHERE sha256 = ${sha256} ${forUpdate}`)
    // The outcome of the first attempt was unknown.
    if (known !== undefined && Number(known.blob) === blob) return
    if (known !== undefined) {
      yield* expectUse(sha256, at)
      yield* run(sql`UPDATE fermata_blobs SET touched_at = ${longAgo} WHERE blob = ${blob}`)
      return
    }
    const [own] =
      yield* run(sql`UPDATE fermata_blobs SET sha256 = ${sha256}, bytes = ${bytes}, pending = 1, touched_at = ${at}
      WHERE blob = ${blob} AND touched_at > ${longAgo} RETURNING blob`)
    if (own === undefined) return yield* abandoned(operation)
  })

  const upload = Effect.fnUntraced(function* <E, R>(
    operation: string,
    blob: number,
    pieces: Stream.Stream<Uint8Array, E, R>
  ): Effect.fn.Return<BlobRef, E | RunStoreError, R> {
    const hasher = makeHasher()
    let bytes = 0
    let place = 0
    yield* pieces.pipe(
      Stream.rechunk(piecesAtOnce),
      Stream.chunks,
      Stream.runForEach((some) =>
        Effect.suspend(() => {
          const first = place
          place += some.length
          for (const piece of some) {
            hasher.update(piece)
            bytes += piece.length
          }
          return extend(operation, blob, first, some)
        })
      )
    )
    const ref = { sha256: yield* hasher.digest, bytes }
    const at = yield* Clock.currentTimeMillis
    yield* write(operation, complete(operation, blob, ref, at), Effect.succeedNone)
    return ref
  })

  const putAll = Effect.fnUntraced(function* (operation: string, contents: ReadonlyArray<Uint8Array>) {
    const given = yield* Effect.forEach(contents, (content) =>
      Effect.map(sha256Of(content), (sha256) => ({ sha256, content }))
    )
    const distinct = Array.from(new Map(given.map((one) => [one.sha256, one])).values()).sort(bySha256)
    const at = yield* Clock.currentTimeMillis
    yield* write(
      operation,
      Effect.gen(function* () {
        for (const { content, sha256 } of distinct) {
          yield* lockName(sha256)
          if (yield* expectUse(sha256, at)) continue
          const blob = randomNumber()
          yield* run(sql`INSERT INTO fermata_blobs (blob, sha256, bytes, pending, touched_at, unused)
            VALUES (${blob}, ${sha256}, ${content.length}, 1, ${at}, 1)`)
          yield* insertPieces(blob, 0, Array.from(inPieces(content)))
        }
      }),
      Effect.succeedNone
    )
    return given.map(({ content, sha256 }): BlobRef => ({ sha256, bytes: content.length }))
  })

  const put = <E, R>(
    content: Stream.Stream<Uint8Array, E, R>
  ): Effect.Effect<BlobRef, E | RunStoreError, R> =>
    Effect.scoped(
      Effect.gen(function* () {
        const [first, rest] = yield* Stream.peel(inEqualPieces(content), Sink.take(2))
        if (first.length < 2) return (yield* putAll("blobs.put", [first[0] ?? new Uint8Array()]))[0]!
        const pieces = Stream.concat(Stream.fromIterable(first), rest)
        const ref = yield* Effect.acquireUseRelease(
          begin("blobs.put"),
          (blob) => upload("blobs.put", blob, pieces),
          (blob, exit) => (exit._tag === "Success" ? Effect.void : abandon("blobs.put", blob))
        )
        yield* clean
        return ref
      })
    )

  return {
    put,
    putAll: (contents) => (contents.length === 0 ? Effect.succeed([]) : putAll("blobs.putAll", contents))
  }
}

/** A number that no other content has had: up to 2^48, which every driver returns exactly. */
const randomNumber = (): number => {
  const [high = 0, low = 0] = globalThis.crypto.getRandomValues(new Uint32Array(2))
  return (high & 0xffff) * 2 ** 32 + low
}

const abandoned = (operation: string): RunStoreError =>
  new RunStoreError({
    operation,
    reason: new StoreFault({
      detail: "nothing of the content arrived for an hour, and its beginning was deleted. Store it again.",
      retryable: true
    })
  })

const piecesAtOnce = 4
