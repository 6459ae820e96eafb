/**
 * How often a stored run is gone on with because the store says that it needs a worker.
 */

/** The longest time for which a run that makes no progress is left alone. */
const longestMs = 5 * 60_000

/** A run that makes no progress is left alone for longer and longer. */
export class ReadyBackoff {
  /** When the run was gone on with last, how far it was then, and how often it was as far before. */
  private last = { at: -1, revision: -1, times: 0 }

  /** Whether a run with so many events is gone on with now. */
  allows(revision: number, at: number): boolean {
    const { last } = this
    const times = last.revision === revision ? last.times + 1 : 0
    if (times > 0 && at - last.at < Math.min(longestMs, 1000 * 2 ** last.times)) return false
    this.last = { at, revision, times }
    return true
  }
}
