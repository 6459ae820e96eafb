/**
 * Contents in pieces of equal length, as they are stored.
 */
import * as Stream from "effect/Stream"
import { pieceBytes } from "../blobs.ts"

/** The pieces of a content in memory, as views of it. All but the last one have the full length. */
export function* inPieces(content: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < content.length; at += pieceBytes) yield content.subarray(at, at + pieceBytes)
}

interface Buffer {
  readonly bytes: Uint8Array
  readonly length: number
}

const empty = (): Buffer => ({ bytes: new Uint8Array(pieceBytes), length: 0 })

/** Fills the buffer with a piece of at most its size. Returns the full buffer, if it became full, and the buffer for what follows. */
const fill = ({ bytes, length }: Buffer, piece: Uint8Array): readonly [Buffer, ReadonlyArray<Uint8Array>] => {
  const room = pieceBytes - length
  bytes.set(piece.subarray(0, room), length)
  if (piece.length < room) return [{ bytes, length: length + piece.length }, []]
  const next = empty()
  next.bytes.set(piece.subarray(room))
  return [{ ...next, length: piece.length - room }, [bytes]]
}

/** Copies a stream of pieces of any length into pieces of the full length and a last one. A caller may use its arrays again. */
export const inEqualPieces = <E, R>(
  content: Stream.Stream<Uint8Array, E, R>
): Stream.Stream<Uint8Array, E, R> =>
  content.pipe(
    // One at a time, so that a large array is not copied as a whole.
    Stream.flatMap((piece) => Stream.fromIterable(inPieces(piece), { chunkSize: 1 })),
    Stream.mapAccum(empty, fill, {
      onHalt: ({ bytes, length }) => (length === 0 ? [] : [bytes.subarray(0, length)])
    })
  )
