/**
 * The part of a run store that keeps bytes beside the journals: attachments, and the whole texts of shortened results.
 *
 * Each content is stored once, by its SHA-256. Events and messages refer to it with a `BlobRef`; the operation of the store that writes
 * them also stores, in the same transaction, that the run refers to the content. A content stays as long as a run refers to it, and is
 * deleted with the last of these runs. A content that no run refers to yet stays for {@link graceTime}, so that a process can first store
 * it and then the event.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { BlobRef, Sha256 } from "../domain/Blob.ts"
import type { RunId, Timestamp } from "../domain/Id.ts"
import type { RunStoreError } from "./RunStoreError.ts"

/** The shortest time that a content without references stays in the store, in milliseconds: an hour. */
export const graceTime = 3_600_000

/** A run that refers to a content. */
export interface BlobUse {
  readonly runId: RunId
  readonly ref: BlobRef
}

/** A content that a run refers to and that the store lacks or has changed. */
export interface DamagedBlob {
  readonly sha256: Sha256
  readonly problem: "missing" | "changed"
  /** The runs that refer to it, at most 100. */
  readonly runIds: ReadonlyArray<RunId>
}

/**
 * The operations on contents. Each can fail with `RunStoreError`: `read` with the reason `BlobMissing` for a content that the store does
 * not have. `put` can also fail with the error of its stream.
 */
export interface BlobPort {
  /**
   * Stores a content, piece by piece, and returns its reference. If the store has the content already, it is not stored again. If the
   * stream fails, fails with its error and stores nothing.
   */
  readonly put: <E, R>(
    content: Stream.Stream<Uint8Array, E, R>
  ) => Effect.Effect<BlobRef, E | RunStoreError, R>

  /** Stores contents that are in memory, all in one transaction, and returns their references in the same order. */
  readonly putAll: (
    contents: ReadonlyArray<Uint8Array>
  ) => Effect.Effect<ReadonlyArray<BlobRef>, RunStoreError>

  /** Reads a content in pieces of at most 256 KiB, from the byte `from` (default: 0), at most `length` bytes (default: all). */
  readonly read: (
    sha256: Sha256,
    options?: { readonly from?: number; readonly length?: number }
  ) => Stream.Stream<Uint8Array, RunStoreError>

  /** Returns the references of those of up to 1,000 contents that the store has. */
  readonly find: (contents: ReadonlyArray<Sha256>) => Effect.Effect<ReadonlyArray<BlobRef>, RunStoreError>

  /** Lists the contents that up to 1,000 runs refer to, each once a run, ordered by run and SHA-256. */
  readonly uses: (runIds: ReadonlyArray<RunId>) => Effect.Effect<ReadonlyArray<BlobUse>, RunStoreError>

  /** Deletes contents that no run refers to and that were last stored before the time `storedBefore`. Returns their number. */
  readonly sweep: (options: { readonly storedBefore: Timestamp }) => Effect.Effect<number, RunStoreError>

  /** Reads all contents that runs refer to, and emits those that are missing or have another SHA-256 than that of their reference. */
  readonly damaged: Stream.Stream<DamagedBlob, RunStoreError>
}

/**
 * The files in which a SQL store keeps contents beside its database. Each file has a number, which is never used for another file. The
 * store writes a row with the number before it creates the file, and deletes the row after the file.
 */
export interface BlobFiles {
  /** Writes bytes at a position. At position 0 it creates the file, which must not exist; elsewhere the file must exist. */
  readonly write: (file: number, position: number, bytes: Uint8Array) => Effect.Effect<void, RunStoreError>
  /** Waits until the file, with its name, survives a power cut. */
  readonly sync: (file: number) => Effect.Effect<void, RunStoreError>
  /** Reads a part of a file; `undefined` if the file does not exist or is shorter. */
  readonly read: (
    file: number,
    position: number,
    length: number
  ) => Effect.Effect<Uint8Array | undefined, RunStoreError>
  /** Deletes a file, if it exists. */
  readonly remove: (file: number) => Effect.Effect<void, RunStoreError>
}
