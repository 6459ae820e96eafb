/**
 * A text that grows at its end, and whose end is read after each part. Its beginning is copied only when it is read.
 */
export class GrowingText {
  #earlier: Array<string> = []
  #earlierLength = 0
  #latest: string

  constructor(text = "") {
    this.#latest = text
  }

  get length(): number {
    return this.#earlierLength + this.#latest.length
  }

  push(part: string): void {
    if (this.#latest.length > longest) {
      const end = this.#latest.length - kept
      this.#earlier.push(this.#latest.slice(0, end))
      this.#earlierLength += end
      this.#latest = this.#latest.slice(end)
    }
    this.#latest += part
  }

  /** The text from an index on, or from 0 if it is negative. */
  slice(start: number, end: number = this.length): string {
    if (start < this.#earlierLength) {
      this.#earlier.push(this.#latest)
      this.#latest = this.#earlier.join("")
      this.#earlier = []
      this.#earlierLength = 0
    }
    return this.#latest.slice(Math.max(0, start - this.#earlierLength), end - this.#earlierLength)
  }
}

/** The length from which the beginning of the latest text is put aside. */
const longest = 256
/** What stays of it. Readers look at most 40 characters back. */
const kept = 64
