/**
 * Fuses ranked lists by the reciprocals of their ranks.
 *
 * @see https://dl.acm.org/doi/10.1145/1571941.1572114 for the method (Cormack et al., "Reciprocal Rank Fusion", 2009)
 */

/** An id with its score; a higher score is better. */
export interface Scored {
  readonly id: string
  readonly score: number
}

/** Damps the first ranks. Small, so that a weak list does not outvote a strong one; see `docs/concepts/memory.md`. */
const damping = 10

/**
 * Fuses lists, each with the best first. An id may be in a list several times, for several passages; its best rank counts. Equal scores are
 * in the order in which the lists have them.
 */
export const fuse = (lists: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<Scored> => {
  const scores = new Map<string, number>()
  for (const list of lists) {
    const seen = new Set<string>()
    for (const [index, id] of list.entries()) {
      if (seen.has(id)) continue
      seen.add(id)
      scores.set(id, (scores.get(id) ?? 0) + 1 / (damping + index + 1))
    }
  }
  return Array.from(scores, ([id, score]) => ({ id, score })).sort((a, b) => b.score - a.score)
}
