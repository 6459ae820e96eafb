/**
 * The output of a command in the background, stdout and stderr in the order of their arrival. The oldest part is dropped beyond a limit.
 */

/** A piece of a log, and where the next one begins. Positions count the characters since the start of the command. */
export interface LogPiece {
  readonly text: string
  /** Where the piece begins. */
  readonly from: number
  /** Where the next piece begins. */
  readonly next: number
  /** Where the log ends now. */
  readonly end: number
}

export class OutputLog {
  readonly #limit: number
  readonly #changed = new Set<() => void>()
  #chunks: Array<string> = []
  #kept = 0
  #end = 0
  #isClosed = false

  /** Keeps at least the last `limit` characters, and at most twice as many. */
  constructor(limit: number) {
    this.#limit = limit
  }

  add(chunk: string): void {
    if (chunk === "") return
    this.#chunks.push(chunk)
    this.#kept += chunk.length
    this.#end += chunk.length
    if (this.#kept > 2 * this.#limit) {
      const rest = this.#chunks.join("").slice(-this.#limit)
      const isCut = /^[\uDC00-\uDFFF]/.test(rest)
      this.#chunks = [isCut ? rest.slice(1) : rest]
      this.#kept = this.#chunks[0]!.length
    }
    this.#notify()
  }

  /** Notes that the command has ended. */
  close(): void {
    this.#isClosed = true
    this.#notify()
  }

  /** The number of characters since the start. */
  get end(): number {
    return this.#end
  }

  /** Reads at most `length` characters from a position; without one, the last ones. */
  read(since: number | undefined, length: number): LogPiece {
    const start = this.#end - this.#kept
    const wanted = since === undefined ? this.#end - length : Math.min(since, this.#end)
    const from = Math.max(start, wanted)
    if (this.#chunks.length > 1) this.#chunks = [this.#chunks.join("")]
    const kept = this.#chunks[0] ?? ""
    const first = from - start + (isSecondHalf(kept, from - start) ? 1 : 0)
    let last = Math.min(kept.length, first + length)
    if (isSecondHalf(kept, last) && last > first + 1) last -= 1
    return { text: kept.slice(first, last), from: start + first, next: start + last, end: this.#end }
  }

  /** Calls `listener` once, when there is output after a position or the command has ended. Returns the function that removes it. */
  onBeyond(position: number, listener: () => void): () => void {
    const check = () => {
      if (this.#end <= position && !this.#isClosed) return
      this.#changed.delete(check)
      listener()
    }
    this.#changed.add(check)
    check()
    return () => this.#changed.delete(check)
  }

  #notify(): void {
    for (const each of this.#changed) each()
  }
}

/** Whether a position is inside of a character that has two halves. */
const isSecondHalf = (text: string, at: number): boolean => {
  const code = text.charCodeAt(at)
  return at > 0 && code >= 0xdc00 && code <= 0xdfff
}
