/**
 * Writing contents in SQL. A content is written in short transactions, in pieces, and becomes visible in the last one.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import type { BlobRef, Sha256 } from "../../../domain/Blob.ts"
import type { Timestamp } from "../../../domain/Id.ts"
import { makeHasher, sha256Of } from "../../../domain/internal/sha256.ts"
import type { BlobFiles, BlobPort } from "../../BlobPort.ts"
import { RunStoreError, StoreFault } from "../../RunStoreError.ts"
import { bySha256, pieceBytes } from "../blobs.ts"
import type { SqlAccess } from "./access.ts"
import type { makeBlobRests } from "./blobRests.ts"
import { longAgo, type makeBlobRows } from "./blobs.ts"
import { inPieces, makeWindow } from "./pieces.ts"

/** Makes the operations that store contents. */
export const makeBlobWrites = (
  access: SqlAccess,
  { lockName }: ReturnType<typeof makeBlobRows>,
  { abandon, clean }: ReturnType<typeof makeBlobRests>,
  files: BlobFiles | undefined
): Pick<BlobPort, "put" | "putAll"> => {
  const { forUpdate, query, requireNoTransaction, run, sql, write } = access

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

  /** Begins a content whose SHA-256 is unknown. */
  const begin = (operation: string, blob: number, isFiled: boolean) =>
    Effect.flatMap(Clock.currentTimeMillis, (at) =>
      write(
        operation,
        Effect.gen(function* () {
          yield* run(sql`INSERT INTO fermata_blobs (blob, bytes, pending, touched_at, unused, filed)
            VALUES (${blob}, 0, 0, ${at}, 1, ${isFiled ? 1 : null}) ON CONFLICT (blob) DO NOTHING`)
          if (isFiled) yield* run(sql`UPDATE fermata_blob_directory SET has_files = 1 WHERE has_files = 0`)
        }),
        Effect.succeedNone
      )
    )

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

  /** The files, unless the caller is in a transaction: a file would stay after a rollback. */
  const filesFor = (operation: string) =>
    files === undefined
      ? Effect.undefined
      : Effect.match(requireNoTransaction(operation), { onFailure: () => undefined, onSuccess: () => files })

  const putAll = Effect.fnUntraced(function* (operation: string, contents: ReadonlyArray<Uint8Array>) {
    const given = contents.map((content) => ({ sha256: sha256Of(content), content }))
    const distinct = Array.from(new Map(given.map((one) => [one.sha256, one])).values()).sort(bySha256)
    const at = yield* Clock.currentTimeMillis
    const files = yield* filesFor(operation)
    const isForFile = (content: Uint8Array) => files !== undefined && content.length > mostInTable
    for (const { content, sha256 } of distinct) {
      if (!isForFile(content)) continue
      const counting = Effect.andThen(lockName(sha256), expectUse(sha256, at))
      const isKnown = yield* write(operation, counting, Effect.succeedNone)
      if (!isKnown) yield* upload(operation, Stream.make(content), files)
    }
    yield* write(
      operation,
      Effect.gen(function* () {
        for (const { content, sha256 } of distinct) {
          if (isForFile(content)) continue
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

  /** Removes a file that was created after its row had been deleted, which happens if nothing is written to a row for an hour. */
  const removeLate = (operation: string, blob: number, files: BlobFiles) =>
    Effect.ignore(
      Effect.flatMap(
        query(operation, run(sql`SELECT blob FROM fermata_blobs WHERE blob = ${blob}`)),
        (rows) => (rows.length === 0 ? files.remove(blob) : Effect.void)
      )
    )

  /** A content that is being written: what is left of it in memory, and the number of its row as soon as it has one. */
  const makeUpload = (operation: string, files: BlobFiles | undefined) => {
    const window = makeWindow()
    const hasher = makeHasher()
    let blob: number | undefined
    let bytes = 0

    const flush = Effect.gen(function* () {
      if (blob === undefined) {
        blob = randomNumber()
        yield* begin(operation, blob, files !== undefined)
      }
      const filled = window.filled()
      hasher.update(filled)
      const pieces = files === undefined ? Array.from(inPieces(filled)) : []
      yield* extend(operation, blob, bytes / pieceBytes, pieces)
      if (files !== undefined) yield* files.write(blob, bytes, filled)
      bytes += filled.length
      window.clear()
    })

    return {
      add: Effect.fnUntraced(function* (given: Uint8Array) {
        for (let rest = window.fill(given); rest.length > 0; rest = window.fill(rest)) yield* flush
      }),
      finish: Effect.gen(function* () {
        const isSmall = files === undefined || window.filled().length <= mostInTable
        if (blob === undefined && isSmall) return (yield* putAll(operation, [window.filled()]))[0]!
        yield* flush
        const ref = { sha256: hasher.digest(), bytes }
        if (files !== undefined) yield* files.sync(blob!)
        const at = yield* Clock.currentTimeMillis
        yield* write(operation, complete(operation, blob!, ref, at), Effect.succeedNone)
        yield* clean
        return ref
      }),
      abandon: Effect.suspend(() => {
        if (blob === undefined) return Effect.void
        return files === undefined
          ? abandon(operation, blob)
          : Effect.andThen(abandon(operation, blob), removeLate(operation, blob, files))
      })
    }
  }

  const upload = <E, R>(
    operation: string,
    content: Stream.Stream<Uint8Array, E, R>,
    files: BlobFiles | undefined
  ): Effect.Effect<BlobRef, E | RunStoreError, R> =>
    Effect.suspend(() => {
      const { abandon, add, finish } = makeUpload(operation, files)
      return Effect.onExit(Effect.andThen(Stream.runForEach(content, add), finish), (exit) =>
        exit._tag === "Success" ? Effect.void : abandon
      )
    })

  const put = <E, R>(
    content: Stream.Stream<Uint8Array, E, R>
  ): Effect.Effect<BlobRef, E | RunStoreError, R> =>
    Effect.flatMap(filesFor("blobs.put"), (files) => upload("blobs.put", content, files))

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

/** The length of a content that is in the database also if there are files: a file for each of them would take longer. */
const mostInTable = 32 * 1024
