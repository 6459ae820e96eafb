/**
 * Reads the files and the whole texts of shortened results to which a stored run refers, for a person or another program.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { BlobRef } from "../domain/Blob.ts"
import { sentence } from "../domain/Display.ts"
import { lineOf, type RunId } from "../domain/Id.ts"
import { bytesOf } from "../domain/internal/files.ts"
import type { FilePart, TextPart } from "../domain/Message.ts"
import { TaggedError } from "../domain/TaggedError.ts"
import { notARun } from "../store/internal/soundInput.ts"
import { RunStore } from "../store/RunStore.ts"
import { RunNotFound, type RunStoreError } from "../store/RunStoreError.ts"
import { referencesOf } from "./internal/references.ts"

/** A file, or the whole text of a result that was cut. */
export interface Attachment {
  /** Number of bytes. */
  readonly size: number
  readonly mediaType: string
  readonly name?: string
  /** Reads the bytes in pieces of at most 256 KiB, from the byte `from` (default: 0), at most `length` bytes (default: all). */
  readonly stream: (options?: {
    readonly from?: number
    readonly length?: number
  }) => Stream.Stream<Uint8Array, RunStoreError>
}

/** Neither the run nor a run that it builds on refers to the content, or the part has no content in a store. */
export class AttachmentNotFound extends TaggedError<AttachmentNotFound>()("AttachmentNotFound", {
  runId: Schema.String,
  /** The SHA-256 as the caller gave it. Absent if the caller gave a part without one. */
  sha256: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    const { runId, sha256 } = this
    return sha256 === undefined
      ? sentence`The part has no content of the run ${runId}: pass a file with bytes, or a text with its whole one.`
      : sentence`The run ${runId} has no content ${sha256}: pass a part of one of its messages or events.`
  }
}

/**
 * Reads an attachment of a run, by a part of one of its messages or events, or by its SHA-256. It reads only contents to which the run, or
 * a run that it builds on, refers. A program may therefore pass a reference that a user of the run has sent.
 *
 * **Gotchas**
 *
 * The media type is the one that the sender or a tool stated. A web service should send such a file as a download, or with
 * `X-Content-Type-Options: nosniff` and a restrictive `Content-Security-Policy`.
 *
 * **Errors**
 *
 * - `AttachmentNotFound` — the run does not refer to this content.
 * - `RunNotFound` — check the id.
 * - `RunStoreError` — the store failed; see its `reason`.
 *
 * @category running
 * @since 0.2.0
 */
export const readAttachment: (
  runId: string,
  attachment: FilePart | TextPart | string
) => Effect.Effect<Attachment, AttachmentNotFound | RunNotFound | RunStoreError, RunStore> = Effect.fn(
  "fermata.readAttachment"
)(function* (runId: string, given: FilePart | TextPart | string) {
  const inline = typeof given === "object" && given?._tag === "file" ? bytesOf(given) : undefined
  if (inline !== undefined) return attachmentOf(given, inline.length, inMemory(inline))
  const store = yield* RunStore
  if (typeof runId !== "string") return yield* notARun(runId)
  const { root } = lineOf(runId as RunId)
  yield* Effect.mapError(store.head(root), (error) =>
    error._tag === "RunNotFound" ? new RunNotFound({ runId }) : error
  )
  const sha256 = digestOf(given)
  const { blobs } = store
  if (sha256 === undefined || blobs === undefined)
    return yield* new AttachmentNotFound({ runId, ...(sha256 === undefined ? {} : { sha256 }) })
  const found = (yield* referencesOf(store, blobs, root)).find((ref) => ref.sha256 === sha256)
  if (found === undefined) return yield* new AttachmentNotFound({ runId, sha256 })
  return attachmentOf(given, found.bytes, (options) => blobs.read(found.sha256, options))
})

const digestOf = (given: FilePart | TextPart | string): string | undefined => {
  if (typeof given === "string") return given
  if (typeof given !== "object" || given === null) return undefined
  const ref: Partial<BlobRef> | undefined =
    given._tag === "text"
      ? given.whole
      : given._tag === "file" && given.source._tag === "stored"
        ? given.source
        : undefined
  return typeof ref?.sha256 === "string" ? ref.sha256 : undefined
}

const attachmentOf = (
  given: FilePart | TextPart | string,
  size: number,
  stream: Attachment["stream"]
): Attachment => {
  if (typeof given === "string") return { size, mediaType: "application/octet-stream", stream }
  const { mediaType = "text/plain", name } = given._tag === "file" ? given : (given.whole ?? {})
  return { size, mediaType, stream, ...(name === undefined ? {} : { name }) }
}

const inMemory =
  (bytes: Uint8Array): Attachment["stream"] =>
  ({ from = 0, length = bytes.length } = {}) =>
    Stream.make(bytes.subarray(from, from + length))
