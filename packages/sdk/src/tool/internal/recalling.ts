/**
 * How the tool `recall` reads contents: through a function in the context of its call, which the run provides.
 */
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import type { FilePart } from "../../domain/Message.ts"

/** A content that a run may read. */
export interface Recalled {
  /** Number of bytes. */
  readonly bytes: number
  /** The content as a file, with its own media type, or the given one if it has none. */
  readonly asFile: (mediaType: string) => FilePart
  /** Reads at most `length` bytes from the byte `from`. */
  readonly read: (from: number, length: number) => Effect.Effect<Uint8Array, unknown>
}

/** A text, read in pieces like any other content. */
export const recalledText = (text: string): Recalled => {
  const bytes = new TextEncoder().encode(text)
  return {
    bytes: bytes.length,
    asFile: (mediaType) => ({
      _tag: "file",
      mediaType,
      source: { _tag: "bytes", base64: Base64.encode(bytes) }
    }),
    read: (from, length) => Effect.succeed(bytes.subarray(from, from + length))
  }
}

/** Finds contents of the session by the first digits of their SHA-256. */
export type Recall = (digits: string) => Effect.Effect<ReadonlyArray<Recalled>, unknown>

/** The key of the function in the context of a call. */
export const recalling = Symbol("fermata/recalling")
