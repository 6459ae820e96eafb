/**
 * The runs that a runtime drives now. The loop adds and removes them; closing the runtime waits until none is left.
 */
import * as Effect from "effect/Effect"
import type { LiveRun } from "../RuntimeDefinition.ts"

/** A set of runs that can be awaited until it is empty. */
export class LiveRuns extends Set<LiveRun> {
  private readonly waiting = new Set<() => void>()

  override delete(run: LiveRun): boolean {
    const had = super.delete(run)
    this.check()
    return had
  }

  override clear(): void {
    super.clear()
    this.check()
  }

  /** Waits until no run is left. */
  readonly ended: Effect.Effect<void> = Effect.callback((resume) => {
    const done = () => resume(Effect.void)
    this.waiting.add(done)
    this.check()
    return Effect.sync(() => this.waiting.delete(done))
  })

  private check(): void {
    if (this.size > 0 || this.waiting.size === 0) return
    const waiting = [...this.waiting]
    this.waiting.clear()
    for (const done of waiting) done()
  }
}
