/**
 * The runs that a runtime is working on right now: who fills it is the loop, who waits for its end is the runtime that closes.
 */
import * as Effect from "effect/Effect"
import type { LiveRun } from "../RuntimeDefinition.ts"

/** A set that tells when it is empty. */
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
