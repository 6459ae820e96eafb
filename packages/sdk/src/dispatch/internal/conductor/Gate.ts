/**
 * Grants the slots of a conductor. Runs that were running before precede new ones; within each group, the first to wait is the first to get
 * a slot.
 */
import * as Effect from "effect/Effect"
import { atLeast } from "../../../agent/internal/soundOptions.ts"
import { ConductorFull } from "../../DispatchError.ts"
import type { ConductorOptions } from "../../dispatchOptions.ts"

/** The default of `maxQueued`. */
const mostQueued = 10_000

/** The slots of a conductor and the runs that wait for them. */
export class Gate {
  private readonly slots: number
  private readonly overflow: ConductorOptions["overflow"]
  private readonly mostQueued: number
  private running = 0
  private isClosed = false
  private readonly again = new Set<() => void>()
  private readonly fresh = new Set<() => void>()
  /** Ends the waits of {@link slotGranted} without a slot. */
  private readonly blocked = new Set<() => void>()

  constructor({ concurrency, maxQueued, overflow }: ConductorOptions) {
    this.slots = atLeast(1, concurrency, 10)
    this.overflow = overflow
    this.mostQueued = atLeast(0, maxQueued, mostQueued)
  }

  get free(): number {
    return this.slots - this.running
  }

  /** Calls `go` when it grants a slot, at once if one is free. Returns a function that stops the wait. */
  enter(go: () => void, wasAtWork: boolean): () => void {
    if (this.free > 0 && !this.isClosed) {
      this.running += 1
      go()
      return () => {}
    }
    const waiting = wasAtWork ? this.again : this.fresh
    waiting.add(go)
    return () => {
      waiting.delete(go)
    }
  }

  /** Releases a slot, or passes it to the next waiting run. */
  leave(): void {
    const [next] = this.isClosed ? [] : this.again.size > 0 ? this.again : this.fresh
    if (next === undefined) {
      this.running -= 1
      return
    }
    this.again.delete(next)
    this.fresh.delete(next)
    next()
  }

  /** Waits until one more run may be dispatched. Returns whether the run already has a slot. */
  get admitted(): Effect.Effect<boolean, ConductorFull> {
    return Effect.suspend((): Effect.Effect<boolean, ConductorFull> => {
      const { overflow = "queue", running } = this
      const queued = this.fresh.size
      if (this.free > 0 || this.isClosed) return Effect.succeed(false)
      if (overflow === "block") return this.slotGranted
      if (overflow === "queue" && queued < this.mostQueued) return Effect.succeed(false)
      return Effect.fail(new ConductorFull({ running, queued }))
    })
  }

  /** Waits for a slot, or until the gate is closed. Returns whether the slot was granted. */
  private get slotGranted(): Effect.Effect<boolean> {
    return Effect.callback((resume) => {
      const stop = () => {
        withdraw()
        this.blocked.delete(end)
      }
      const end = () => {
        stop()
        resume(Effect.succeed(false))
      }
      const withdraw = this.enter(() => {
        this.blocked.delete(end)
        resume(Effect.succeed(true))
      }, false)
      this.blocked.add(end)
      return Effect.sync(stop)
    })
  }

  /** Stops granting slots. */
  close(): void {
    this.isClosed = true
    for (const end of this.blocked) end()
  }
}
