/**
 * How the tool `recall` reads contents: through a function in the context of its call, which the run provides.
 */
import type * as Effect from "effect/Effect"
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

/** Finds contents of the session by the first digits of their SHA-256. */
export type Recall = (digits: string) => Effect.Effect<ReadonlyArray<Recalled>, unknown>

/** The key of the function in the context of a call. */
export const recalling = Symbol("fermata/recalling")
