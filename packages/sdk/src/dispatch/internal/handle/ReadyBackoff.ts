/**
 * Limits how often a handle resumes a stored run that the store lists as ready.
 */

/** The longest delay between two attempts. */
const longestMs = 5 * 60_000

/** Delays the attempts to resume a run exponentially as long as it makes no progress. */
export class ReadyBackoff {
  /** The time and revision of the last attempt, and the number of earlier attempts at this revision. */
  private last = { at: -1, revision: -1, times: 0 }

  /** Whether a run with this revision may be resumed at the time `at`. Counts the attempt if so. */
  allows(revision: number, at: number): boolean {
    const { last } = this
    const times = last.revision === revision ? last.times + 1 : 0
    if (times > 0 && at - last.at < Math.min(longestMs, 1000 * 2 ** last.times)) return false
    this.last = { at, revision, times }
    return true
  }
}
