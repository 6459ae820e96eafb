/**
 * The readers of runs, by run.
 */
export class RunReaders<Reader> {
  private readonly byRun = new Map<string, Set<Reader>>()

  of(runId: string): Iterable<Reader> {
    return this.byRun.get(runId) ?? []
  }

  /** Adds a reader. Returns the function that removes it. */
  add(runId: string, reader: Reader): () => void {
    const ofRun = this.byRun.get(runId) ?? new Set()
    this.byRun.set(runId, ofRun.add(reader))
    return () => {
      ofRun.delete(reader)
      // Otherwise a process would keep an entry of every run that was ever read.
      if (ofRun.size === 0) this.byRun.delete(runId)
    }
  }
}
