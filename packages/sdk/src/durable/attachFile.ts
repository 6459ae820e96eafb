/**
 * Stores a file for a prompt, a message or a tool's result, before a run refers to it.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import { smallestStored } from "../domain/Blob.ts"
import { messageOf, sentence } from "../domain/Display.ts"
import { type Kind, nonEmpty, shapeOf } from "../domain/internal/misfits.ts"
import { kindOf, withoutUndefined } from "../domain/internal/untyped.ts"
import type { FilePart } from "../domain/Message.ts"
import { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import { TaggedError } from "../domain/TaggedError.ts"
import { redactText } from "../run/internal/redact.ts"
import { joined } from "../store/internal/blobs.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import { contained, Scrubber } from "../tool/Scrubber.ts"
import { AttachedBytes } from "./internal/AttachedBytes.ts"

/** The content of a file: bytes in memory, a `Blob` or a `File`, or bytes that arrive in pieces. */
export type Attachable<E = never> =
  | Uint8Array
  | ArrayBuffer
  | Blob
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>
  | Stream.Stream<Uint8Array, E>

/** Options of `attachFile`. */
export interface FileOptions {
  /**
   * The media type. Default: that of a `Blob`, otherwise recognized from the bytes for images, PDF and text; else
   * `application/octet-stream`.
   */
  readonly mediaType?: string
  /** The name that the model is shown. Default: that of a `File`. */
  readonly name?: string
}

/** A file could not be read to its end, or a piece of it is not bytes. Nothing was stored. */
export class FileUnreadable extends TaggedError<FileUnreadable>()("FileUnreadable", {
  problem: Schema.String
}) {
  override get message() {
    return sentence`The file cannot be attached: ${this.problem}. Nothing was stored; attach it again.`
  }
}

const shape = shapeOf<FileOptions>({ mediaType: nonEmpty, name: nonEmpty })

/**
 * Stores a file, and returns the part with which a prompt, a message or a tool's result refers to it. A stream is stored piece by piece, and
 * is never in memory as a whole.
 *
 * **Details**
 *
 * Equal files are stored once. `prune` deletes a file to which no run refers an hour after it was stored. Secrets are removed from a text,
 * of any media type, before it is stored. The returned part contains the bytes of a file of less than 1 KiB, unless it arrives in pieces,
 * and of any file if the store keeps no contents.
 *
 * **Errors**
 *
 * - `FileUnreadable` — reading the file failed; the errors of an Effect `Stream` are returned as they are.
 * - `OptionsInvalid` — the file or an option has a wrong type.
 * - `RunStoreError` — the store failed; see its `reason`.
 *
 * **Example** (Attaching a file to a prompt)
 *
 * ```ts run
 * import { Agent, attachFile, Message, RunStore } from "@fermata/sdk"
 * import { Effect } from "effect"
 *
 * const prompt = Effect.gen(function* () {
 *   const report = yield* attachFile(new TextEncoder().encode("Total: 12"), { name: "report.txt" })
 *   return [Message.text("What is the total?"), report]
 * }).pipe(Effect.provide(RunStore.layerMemory))
 * ```
 *
 * @category running
 * @since 0.2.0
 */
export const attachFile: <E = never>(
  content: Attachable<E>,
  options?: FileOptions
) => Effect.Effect<FilePart, E | FileUnreadable | OptionsInvalid | RunStoreError, RunStore> = Effect.fn(
  "fermata.attachFile"
)(function* <E>(content: Attachable<E>, given: FileOptions = {}) {
  const options = yield* requireOptions("attachFile", given, shape)
  const scrubber = contained(yield* Scrubber)
  const pieces = yield* piecesOf(content, scrubber)
  const { blobs } = yield* RunStore
  const { mediaType, name } = { ...ofBlob(content), ...withoutUndefined(options) }
  const attached = new AttachedBytes(mediaType, () => scrubber.redactStream())
  const clean = pieces.pipe(
    Stream.mapAccum(
      () => attached,
      (file, piece) => [file, file.push(piece)] as const,
      {
        onHalt: (file) => file.end()
      }
    )
  )
  const part = (source: FilePart["source"]): FilePart => ({
    _tag: "file",
    mediaType: attached.mediaType ?? unknownType,
    source,
    ...(name === undefined ? {} : { name: redactText(scrubber, name) })
  })
  if (blobs !== undefined && !isSmall(content)) return part({ _tag: "stored", ...(yield* blobs.put(clean)) })
  const bytes = joined(yield* Stream.runCollect(clean))
  return part({ _tag: "bytes", base64: Base64.encode(bytes) })
})

const unknownType = "application/octet-stream"

/** Whether a file is certainly of fewer bytes than are stored. */
const isSmall = (content: Attachable<unknown>): boolean => {
  if (content instanceof Blob) return content.size < smallestStored
  return "byteLength" in content && content.byteLength < smallestStored
}

/** The media type and the name of a `Blob`. */
const ofBlob = (content: Attachable<unknown>): FileOptions =>
  content instanceof Blob
    ? {
        ...(content.type === "" ? {} : { mediaType: content.type }),
        ...("name" in content && typeof content.name === "string" ? { name: content.name } : {})
      }
    : {}

const piecesOf = <E>(
  content: Attachable<E>,
  scrubber: Scrubber
): Effect.Effect<Stream.Stream<Uint8Array, E | FileUnreadable>, OptionsInvalid> => {
  const unreadable = (cause: unknown) =>
    new FileUnreadable({ problem: `reading it failed: ${scrubber.scrub(messageOf(cause))}` })
  if (content instanceof Uint8Array) return Effect.succeed(Stream.make(content))
  if (content instanceof ArrayBuffer) return Effect.succeed(Stream.make(new Uint8Array(content)))
  if (Stream.isStream(content)) return Effect.succeed(Stream.mapEffect(content, requireBytes))
  const web = content instanceof Blob ? content.stream() : content
  if (web instanceof ReadableStream)
    return Effect.succeed(
      Stream.mapEffect(Stream.fromReadableStream({ evaluate: () => web, onError: unreadable }), requireBytes)
    )
  if (typeof web === "object" && web !== null && Symbol.asyncIterator in web)
    return Effect.succeed(Stream.mapEffect(Stream.fromAsyncIterable(web, unreadable), requireBytes))
  const place = "the file"
  const problem = `${place} takes ${file.takes}, and ${kindOf(content)} was given`
  return Effect.fail(new OptionsInvalid({ of: "attachFile", misfits: [{ place, problem }] }))
}

const file: Pick<Kind, "takes"> = {
  takes: "a Uint8Array, an ArrayBuffer, a Blob, or a stream or an async iterable of Uint8Array"
}

/** A program without types may pass a stream of texts. */
const requireBytes = (piece: unknown): Effect.Effect<Uint8Array, FileUnreadable> =>
  piece instanceof Uint8Array
    ? Effect.succeed(piece)
    : Effect.fail(
        new FileUnreadable({ problem: `a piece of it is ${kindOf(piece)}, and has to be a Uint8Array` })
      )
