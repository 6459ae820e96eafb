/**
 * Contents in pieces of equal length, as they are stored.
 */
import { pieceBytes } from "../blobs.ts"

/** The pieces of a content in memory, as views of it. All but the last one have the full length. */
export function* inPieces(content: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < content.length; at += pieceBytes) yield content.subarray(at, at + pieceBytes)
}

/** The bytes of a content that are written next. The memory is reused for the following ones, because the collector frees arrays late. */
export interface Window {
  /** Copies as many of the bytes as there is room for. Returns the others. */
  readonly fill: (bytes: Uint8Array) => Uint8Array
  /** The bytes, until `clear` is called. */
  readonly filled: () => Uint8Array
  readonly clear: () => void
}

/** Makes a window of a MiB. Small contents take a quarter of it. */
export const makeWindow = (): Window => {
  let memory = new Uint8Array(pieceBytes)
  let length = 0
  return {
    fill: (bytes) => {
      if (length + bytes.length > memory.length && memory.length < windowBytes) {
        const larger = new Uint8Array(windowBytes)
        larger.set(memory.subarray(0, length))
        memory = larger
      }
      const taken = bytes.subarray(0, memory.length - length)
      memory.set(taken, length)
      length += taken.length
      return bytes.subarray(taken.length)
    },
    filled: () => memory.subarray(0, length),
    clear: () => {
      length = 0
    }
  }
}

const windowBytes = 4 * pieceBytes
