/**
 * Contents of the memory store.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type { BlobRef, Sha256 } from "../../../domain/Blob.ts"
import type { RunId, Timestamp } from "../../../domain/Id.ts"
import { sha256Of } from "../../../domain/internal/sha256.ts"
import { type BlobPort, graceTime } from "../../BlobPort.ts"
import { BlobMissing, RunStoreError } from "../../RunStoreError.ts"
import { bySha256, joined, missingBlob, pieceBytes } from "../blobs.ts"
import { position } from "../bounds.ts"

interface Content {
  readonly bytes: Uint8Array
  /** The runs that refer to it. */
  readonly runs: Set<RunId>
  /** The number of times that it was stored for a reference that is not written yet. */
  pending: number
  storedAt: Timestamp
}

/** All contents of a store. */
export type Blobs = Map<Sha256, Content>

export const make = (): Blobs => new Map()

/** Fails if the store lacks one of these contents. */
export const requireAll = (
  blobs: Blobs,
  operation: string,
  refs: ReadonlyArray<BlobRef>
): Result.Result<void, RunStoreError> => {
  const missing = refs.find(({ bytes, sha256 }) => blobs.get(sha256)?.bytes.length !== bytes)
  return missing === undefined ? Result.void : Result.fail(missingBlob(operation, missing))
}

/** Records that a run refers to contents. A reference that the run already has was counted before. */
export const refer = (blobs: Blobs, runId: RunId, refs: ReadonlyArray<BlobRef>): void => {
  for (const { sha256 } of refs) {
    const content = blobs.get(sha256)
    if (content === undefined || content.runs.has(runId)) continue
    content.runs.add(runId)
    content.pending = Math.max(0, content.pending - 1)
  }
}

/** Deletes the references of a removed run, and the contents that no other run refers to and no process is about to refer to. */
export const erase = (blobs: Blobs, runId: RunId, now: Timestamp): void => {
  for (const [sha256, content] of blobs) {
    if (!content.runs.delete(runId) || content.runs.size > 0) continue
    if (content.pending === 0 || content.storedAt < now - graceTime) blobs.delete(sha256)
  }
}

/** Deletes contents that no run refers to and that were last stored before a time. Returns their number. */
export const sweep = (blobs: Blobs, storedBefore: Timestamp): number => {
  let count = 0
  for (const [sha256, { runs, storedAt }] of blobs) {
    if (runs.size > 0 || storedAt >= storedBefore) continue
    blobs.delete(sha256)
    count += 1
  }
  return count
}

/** The operations on contents. */
export const portOf = (blobs: Blobs): BlobPort => {
  const keep = (sha256: Sha256, bytes: Uint8Array) =>
    Effect.clockWith((clock) =>
      Effect.sync((): BlobRef => {
        const storedAt = clock.currentTimeMillisUnsafe()
        const known = blobs.get(sha256)
        if (known === undefined) blobs.set(sha256, { bytes, runs: new Set(), pending: 1, storedAt })
        else Object.assign(known, { pending: known.pending + 1, storedAt })
        return { sha256, bytes: bytes.length }
      })
    )
  const refTo = (sha256: Sha256): ReadonlyArray<BlobRef> => {
    const content = blobs.get(sha256)
    return content === undefined ? [] : [{ sha256, bytes: content.bytes.length }]
  }
  return {
    put: (content) =>
      Stream.runCollect(content).pipe(
        Effect.map(joined),
        Effect.flatMap((bytes) => keep(sha256Of(bytes), bytes))
      ),

    putAll: (contents) =>
      Effect.gen(function* () {
        const digests: Array<Sha256> = []
        const distinct = new Map<Sha256, Uint8Array>()
        for (const bytes of contents) {
          const sha256 = sha256Of(bytes)
          digests.push(sha256)
          distinct.set(sha256, bytes)
        }
        for (const [sha256, bytes] of distinct) yield* keep(sha256, bytes.slice())
        return digests.flatMap(refTo)
      }),

    read: (sha256, options) =>
      Stream.suspend(() => {
        const content = blobs.get(sha256)
        if (content === undefined) {
          return Stream.fail(
            new RunStoreError({ operation: "blobs.read", reason: new BlobMissing({ sha256 }) })
          )
        }
        const from = position(options?.from, 0)
        const to = Math.min(content.bytes.length, from + position(options?.length, content.bytes.length))
        return Stream.unfold(from, (at) =>
          Effect.succeed(
            at >= to
              ? undefined
              : ([
                  content.bytes.slice(at, Math.min(at + pieceBytes, to)),
                  Math.min(at + pieceBytes, to)
                ] as const)
          )
        )
      }),

    find: (contents) => Effect.sync(() => Array.from(new Set(contents)).flatMap(refTo).sort(bySha256)),

    uses: (runIds) =>
      Effect.sync(() =>
        Array.from(new Set(runIds))
          .sort()
          .flatMap((runId) =>
            Array.from(blobs)
              .flatMap(([sha256, { runs }]) => (runs.has(runId) ? refTo(sha256) : []))
              .sort(bySha256)
              .map((ref) => ({ runId, ref }))
          )
      ),

    sweep: ({ storedBefore }) => Effect.sync(() => sweep(blobs, storedBefore)),

    damaged: Stream.empty
  }
}
