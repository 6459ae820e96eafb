/**
 * Keeps the head and the tail of a stream of bytes within a limit, cut between characters.
 *
 * @internal
 */

/** Keeps the first and the last half of `limit` bytes of what is added. Its memory is at most 2 × `limit`. */
export class OutputKeeper {
  private readonly head: Array<Uint8Array> = []
  private headBytes = 0
  private tail: Array<Uint8Array> = []
  private tailBytes = 0
  private total = 0
  private readonly headLimit: number
  private readonly tailLimit: number

  constructor(limit: number) {
    this.headLimit = Math.ceil(limit / 2)
    this.tailLimit = limit - this.headLimit
  }

  add(bytes: Uint8Array): void {
    this.total += bytes.length
    let rest = bytes
    if (this.headBytes < this.headLimit) {
      const taken = rest.subarray(0, this.headLimit - this.headBytes)
      this.head.push(taken.slice())
      this.headBytes += taken.length
      rest = rest.subarray(taken.length)
    }
    if (rest.length === 0 || this.tailLimit === 0) return
    this.tail.push(rest.slice(-this.tailLimit))
    this.tailBytes += Math.min(rest.length, this.tailLimit)
    if (this.tailBytes > 2 * this.tailLimit || this.tail.length > maxPieces) this.trim()
  }

  /** The kept text, with a marker in the place of the bytes that are missing, and their number. */
  end(): { readonly text: string; readonly missing: number } {
    this.trim()
    const head = joined(this.head)
    const tail = joined(this.tail)
    if (this.headBytes + this.tailBytes === this.total) {
      return { text: decode(concat(head, tail)), missing: 0 }
    }
    const before = head.subarray(0, endOfCharacters(head))
    const after = tail.subarray(startOfCharacters(tail))
    const missing = this.total - before.length - after.length
    return { text: `${decode(before)}\n[${missing} bytes are missing here]\n${decode(after)}`, missing }
  }

  private trim(): void {
    const all = joined(this.tail)
    this.tail = all.length === 0 ? [] : [all.slice(-this.tailLimit)]
    this.tailBytes = Math.min(all.length, this.tailLimit)
  }
}

const maxPieces = 1_000

const concat = (left: Uint8Array, right: Uint8Array): Uint8Array => joined([left, right])

const joined = (pieces: ReadonlyArray<Uint8Array>): Uint8Array => {
  if (pieces.length === 1) return pieces[0]!
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0))
  let at = 0
  for (const piece of pieces) {
    all.set(piece, at)
    at += piece.length
  }
  return all
}

const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80

/** The end of the last whole character: a sequence of UTF-8 that the cut left incomplete is left out. */
const endOfCharacters = (bytes: Uint8Array): number => {
  for (let back = 1; back <= Math.min(4, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!
    if (isContinuation(byte)) continue
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return length > back ? bytes.length - back : bytes.length
  }
  return bytes.length
}

const startOfCharacters = (bytes: Uint8Array): number => {
  let at = 0
  while (at < 3 && isContinuation(bytes[at])) at++
  return at
}
