/**
 * Places for runs that are at work at the same time. Whoever was at work before goes first; otherwise first come, first served.
 */

/** Where a run asks for a place. */
export interface Gate {
  /** Calls `go` when there is a place, at once if there is one now. Returns how to stop waiting. */
  readonly enter: (go: () => void, wasAtWork: boolean) => () => void
  /** Gives a place back. */
  readonly leave: () => void
  readonly running: () => number
  /** New ones that wait. */
  readonly queued: () => number
  readonly places: number
  /** Lets nobody in any more. */
  readonly close: () => void
}

/** A gate with so many places. */
export const makeGate = (places: number): Gate => {
  let running = 0
  let isClosed = false
  const again = new Set<() => void>()
  const fresh = new Set<() => void>()
  const next = (): (() => void) | undefined => {
    for (const waiting of [again, fresh]) {
      for (const go of waiting) {
        waiting.delete(go)
        return go
      }
    }
    return undefined
  }
  return {
    places,
    enter: (go, wasAtWork) => {
      if (running < places && !isClosed) {
        running += 1
        go()
        return () => {}
      }
      const waiting = wasAtWork ? again : fresh
      waiting.add(go)
      return () => {
        waiting.delete(go)
      }
    },
    leave: () => {
      const go = isClosed ? undefined : next()
      if (go === undefined) running -= 1
      else go()
    },
    running: () => running,
    queued: () => fresh.size,
    close: () => {
      isClosed = true
    }
  }
}
