/**
 * An inverted index of passages in memory, ranked by BM25.
 *
 * It has the terms of the passages and no texts. Several indexes are searched as if they were one: what counts for a rare term is how rare it
 * is in all of them.
 *
 * @see https://dl.acm.org/doi/10.1561/1500000019 for BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009)
 */

/** Saturation of repeated terms, and the weight of the length of a passage: the customary values. */
const saturation = 1.2
const lengthWeight = 0.75

/** A term that is in most passages still adds a little. */
const leastWeight = 1e-6

/** The most occurrences of an entry; the count shares a number with the passage. */
const mostTimes = 255

/** The occurrences of one term: passage × 256 + count, in the order of their addition. A passage may be there twice. */
class Postings {
  entries = new Uint32Array(4)
  size = 0

  /** Counts one more occurrence. Those of a passage usually follow each other, and share an entry. */
  add(passage: number): void {
    const last = this.entries[this.size - 1]
    if (last !== undefined && last >>> 8 === passage && (last & mostTimes) < mostTimes) {
      this.entries[this.size - 1] = last + 1
      return
    }
    if (this.size === this.entries.length) {
      const larger = new Uint32Array(this.size * 2)
      larger.set(this.entries)
      this.entries = larger
    }
    this.entries[this.size] = passage * 256 + 1
    this.size += 1
  }
}

/** An index of passages, which are numbered from 0. */
export class TermIndex {
  private readonly postings = new Map<string, Postings>()
  private readonly lengths: Array<number> = []
  /** The number of terms of all passages. */
  total = 0
  /** The scores of the current search, all 0 between searches; and the counts of its current term. */
  scores = new Float64Array(0)
  private times = new Uint16Array(0)
  private touched: Array<number> = []

  /** The number of passages. */
  get size(): number {
    return this.lengths.length
  }

  /** Adds terms to a passage, which is a known one or the next. */
  add(passage: number, terms: ReadonlyArray<string>): void {
    for (const term of terms) {
      let postings = this.postings.get(term)
      if (postings === undefined) this.postings.set(term, (postings = new Postings()))
      postings.add(passage)
    }
    this.lengths[passage] = (this.lengths[passage] ?? 0) + terms.length
    this.total += terms.length
  }

  /** Counts a term in each passage. Returns in how many it is. */
  count(term: string): number {
    this.touched.length = 0
    const postings = this.postings.get(term)
    if (postings === undefined) return 0
    if (this.times.length < this.size) {
      this.times = new Uint16Array(this.size * 2)
      this.scores = new Float64Array(this.size * 2)
    }
    const { entries, size } = postings
    for (let at = 0; at < size; at += 1) {
      const entry = entries[at]!
      const passage = entry >>> 8
      if (this.times[passage] === 0) this.touched.push(passage)
      this.times[passage]! += entry & 255
    }
    return this.touched.length
  }

  /** Adds the weight of the term that was counted last to the scores. Adds passages that had none to `found`. */
  weigh(weight: number, meanLength: number, found: Array<number>): void {
    const { lengths, scores, times, touched } = this
    for (const passage of touched) {
      const count = times[passage]!
      times[passage] = 0
      const norm = saturation * (1 - lengthWeight + (lengthWeight * lengths[passage]!) / meanLength)
      if (scores[passage] === 0) found.push(passage)
      scores[passage]! += (weight * count * (saturation + 1)) / (count + norm)
    }
  }
}

/** A passage of one of the searched indexes. */
export interface FoundPassage {
  /** The place of its index in the list. */
  readonly index: number
  readonly passage: number
  readonly score: number
}

/**
 * Ranks the passages of indexes by BM25. Returns the first `depth` that are not left out, best first; of equal ones, earlier passages come
 * first.
 */
export const searchIndexes = (
  indexes: ReadonlyArray<TermIndex>,
  terms: Iterable<string>,
  depth: number,
  isLeftOut: (index: number, passage: number) => boolean = () => false
): ReadonlyArray<FoundPassage> => {
  const passages = indexes.reduce((sum, { size }) => sum + size, 0)
  const total = indexes.reduce((sum, index) => sum + index.total, 0)
  const meanLength = Math.max(1, total / Math.max(1, passages))
  const found = indexes.map((): Array<number> => [])
  for (const term of new Set(terms)) {
    const frequency = indexes.reduce((sum, index) => sum + index.count(term), 0)
    if (frequency === 0) continue
    const rarity = Math.log((passages - frequency + 0.5) / (frequency + 0.5))
    for (const [at, index] of indexes.entries())
      index.weigh(Math.max(leastWeight, rarity), meanLength, found[at]!)
  }
  const best = new Best(depth)
  for (const [at, index] of indexes.entries())
    for (const passage of found[at]!) {
      if (!isLeftOut(at, passage)) best.offer(at, passage, index.scores[passage]!)
      index.scores[passage] = 0
    }
  return best.entries
}

/** The best passages so far, in order. */
class Best {
  readonly entries: Array<FoundPassage> = []
  private readonly depth: number

  constructor(depth: number) {
    this.depth = depth
  }

  offer(index: number, passage: number, score: number): void {
    const { depth, entries } = this
    const last = entries[depth - 1]
    if (last !== undefined && !isBefore(score, index, passage, last)) return
    let low = 0
    let high = entries.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (isBefore(score, index, passage, entries[middle]!)) high = middle
      else low = middle + 1
    }
    entries.splice(low, 0, { index, passage, score })
    if (entries.length > depth) entries.pop()
  }
}

const isBefore = (score: number, index: number, passage: number, other: FoundPassage): boolean =>
  score > other.score ||
  (score === other.score && (index < other.index || (index === other.index && passage < other.passage)))
