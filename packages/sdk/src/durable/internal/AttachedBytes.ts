/**
 * The bytes of a file while it is stored: a text of any media type loses its secrets, and any other file stays as it is.
 */
import { incompleteAfter, isMedia, utf8In } from "../../domain/internal/files.ts"
import { joined } from "../../store/internal/blobs.ts"
import { mediaTypeOf } from "../../tool/internal/resultParts.ts"
import type { ScrubStream } from "../../tool/Scrubber.ts"

/** Bytes at the beginning of a file by which it is judged. */
const sniffed = 4096

/** Takes the pieces of one file, in order. */
export class AttachedBytes {
  /** The media type that the caller gave, or that of the first bytes. */
  mediaType: string | undefined
  private readonly redacting: () => ScrubStream
  private kind: "unknown" | "text" | "bytes" = "unknown"
  /** The first bytes, or an incomplete character. */
  private rest = new Uint8Array(0)
  private stream: ScrubStream | undefined

  constructor(mediaType: string | undefined, redacting: () => ScrubStream) {
    this.mediaType = mediaType
    this.redacting = redacting
  }

  /** Returns the bytes that are certain after a further piece. */
  push(piece: Uint8Array): ReadonlyArray<Uint8Array> {
    if (this.kind === "bytes") return [piece]
    const bytes = joined([this.rest, piece])
    if (this.kind === "unknown" && bytes.length < sniffed) {
      this.rest = bytes
      return []
    }
    return this.judged(bytes, incompleteAfter(bytes))
  }

  /** Returns the bytes that were held back. */
  end(): ReadonlyArray<Uint8Array> {
    const last =
      this.kind === "bytes" ? [] : this.judged(this.rest, utf8In(this.rest) === undefined ? undefined : 0)
    return this.stream === undefined ? last : [...last, encode(this.stream.end())]
  }

  /** `incomplete` is the length of the last character if it is incomplete; `undefined` if the bytes are no text. */
  private judged(bytes: Uint8Array<ArrayBuffer>, incomplete: number | undefined): ReadonlyArray<Uint8Array> {
    const whole = bytes.subarray(0, bytes.length - (incomplete ?? 0))
    this.mediaType ??= mediaTypeOf(whole)
    if (incomplete === undefined || isMedia(this.mediaType)) {
      // Another file may begin with a text.
      const before = this.stream === undefined ? [] : [encode(this.stream.end())]
      this.stream = undefined
      this.kind = "bytes"
      return [...before, bytes]
    }
    this.kind = "text"
    this.rest = bytes.slice(whole.length)
    return [encode((this.stream ??= this.redacting()).push(utf8In(whole) ?? ""))]
  }
}

const encode = (text: string): Uint8Array => new TextEncoder().encode(text)
