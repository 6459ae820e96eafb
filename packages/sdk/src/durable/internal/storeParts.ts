/**
 * Stores the files of a prompt or a message, before the event or the message that refers to them.
 */
import * as Effect from "effect/Effect"
import type { BlobRef, Sha256 } from "../../domain/Blob.ts"
import { mapUnlessSame } from "../../domain/internal/files.ts"
import type { UserPart } from "../../domain/Message.ts"
import { Contents, isStored } from "../../run/internal/Contents.ts"
import { redactMessage } from "../../run/internal/redact.ts"
import type { RunStore } from "../../store/RunStore.ts"
import { BlobMissing, RunStoreError } from "../../store/RunStoreError.ts"
import type { Scrubber } from "../../tool/Scrubber.ts"

/** The parts of a prompt without secrets, and with references in place of their bytes; see {@link storeClean}. */
export const storeParts = (store: RunStore["Service"], scrubber: Scrubber, parts: ReadonlyArray<UserPart>) =>
  storeClean(store, redactMessage(scrubber, { content: parts }).content)

/**
 * The parts with references in place of their bytes, whose contents are stored. A part that refers to a content already gets the length
 * that the store has. Fails with `BlobMissing`, and stores nothing, if the store does not have it.
 */
export const storeClean = Effect.fnUntraced(function* (
  { blobs }: RunStore["Service"],
  parts: ReadonlyArray<UserPart>
) {
  if (parts.every(({ _tag }) => _tag === "text")) return parts
  const known = new Map<Sha256, BlobRef>()
  const named = parts.flatMap((part) => (isStored(part) ? [part.source.sha256] : []))
  if (blobs !== undefined) {
    for (let at = 0; at < named.length; at += mostFound)
      for (const ref of yield* blobs.find(named.slice(at, at + mostFound))) known.set(ref.sha256, ref)
  }
  const unknown = named.find((sha256) => !known.has(sha256))
  if (unknown !== undefined) {
    return yield* new RunStoreError({ operation: "find", reason: new BlobMissing({ sha256: unknown }) })
  }
  if (blobs === undefined) return parts
  const contents = new Contents(blobs)
  const stored = mapUnlessSame(parts, (part) => {
    const ref = isStored(part) ? known.get(part.source.sha256) : undefined
    return ref === undefined
      ? contents.separated(part)
      : ({ ...part, source: { _tag: "stored", ...ref } } as UserPart)
  })
  yield* contents.flush
  return stored
})

/** The number of contents that a store finds at once. */
const mostFound = 1000
