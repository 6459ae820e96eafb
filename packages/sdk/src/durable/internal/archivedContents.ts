/**
 * The contents to which the runs of an archive refer.
 */
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { BlobRef, Sha256 } from "../../domain/Blob.ts"
import { sentence } from "../../domain/Display.ts"
import { sha256Of } from "../../domain/internal/sha256.ts"
import { TaggedError } from "../../domain/TaggedError.ts"
import { joined } from "../../store/internal/blobs.ts"
import type { RunStore } from "../../store/RunStore.ts"
import type { RunStoreError } from "../../store/RunStoreError.ts"
import { type ArchiveInvalid, invalid, type RunArchive } from "./checkArchive.ts"

type Store = RunStore["Service"]

/** The most bytes of contents in an archive that is one value: 64 MiB. */
const mostBytes = 64 * 1024 * 1024

/** The files of a run, and of the runs that it builds on, are too large for an archive that is one JSON value. */
export class ArchiveTooLarge extends TaggedError<ArchiveTooLarge>()("ArchiveTooLarge", {
  runId: Schema.String,
  /** The number of bytes of the files, and the most that such an archive can hold. */
  bytes: Schema.Natural,
  longest: Schema.Natural
}) {
  override get message() {
    const { bytes, longest, runId } = this
    return sentence`The files of the run ${runId} have ${bytes} bytes, and an archive as one value has at most ${longest}: export it with exportRunLines, piece by piece.`
  }
}

/** The references of the runs of an archive, each content once. */
export const referencesIn = Effect.fnUntraced(function* (store: Store, { runs }: RunArchive) {
  const found = new Map<Sha256, BlobRef>()
  if (store.blobs === undefined) return []
  const ids = runs.map(({ runId }) => runId)
  for (let at = 0; at < ids.length; at += mostRuns)
    for (const { ref } of yield* store.blobs.uses(ids.slice(at, at + mostRuns))) found.set(ref.sha256, ref)
  return Array.from(found.values())
})

/** The number of runs whose uses a store lists at once. */
const mostRuns = 1000

/** The contents of an archive that is one value. */
export const contentsOf = Effect.fnUntraced(function* (
  store: Store,
  archive: RunArchive
): Effect.fn.Return<NonNullable<RunArchive["contents"]>, ArchiveTooLarge | RunStoreError> {
  const refs = yield* referencesIn(store, archive)
  const bytes = refs.reduce((sum, ref) => sum + ref.bytes, 0)
  if (bytes > mostBytes) {
    const { runId } = archive.runs.at(-1)!
    return yield* new ArchiveTooLarge({ runId, bytes, longest: mostBytes })
  }
  return yield* Effect.forEach(refs, ({ sha256 }) =>
    Effect.map(Stream.runCollect(store.blobs!.read(sha256)), (pieces) => ({
      sha256,
      base64: Base64.encode(joined(pieces))
    }))
  )
})

/** Stores those contents of an archive to which its runs refer. */
export const storeArchived = Effect.fnUntraced(function* (
  { blobs }: Store,
  contents: NonNullable<RunArchive["contents"]>,
  needed: ReadonlySet<Sha256>
): Effect.fn.Return<void, ArchiveInvalid | RunStoreError> {
  const given: Array<Uint8Array> = []
  for (const { base64, sha256 } of contents) {
    const bytes = Result.getOrUndefined(Base64.decode(base64))
    if (bytes === undefined || sha256Of(bytes) !== sha256) return yield* notItself(sha256)
    if (needed.has(sha256)) given.push(bytes)
  }
  if (given.length > 0 && blobs !== undefined) yield* blobs.putAll(given)
})

/** The refusal of a content that is not the one that its SHA-256 names. */
export const notItself = (sha256: string): ArchiveInvalid =>
  invalid(sentence`the bytes of its content ${sha256} have another SHA-256`)
