/**
 * Something whose changes others wait for. Nothing is kept for them before the first one does.
 */
import * as Effect from "effect/Effect"

export abstract class Watchable {
  private listeners: Set<() => void> | undefined

  /** Whether nothing changes any more. */
  abstract readonly over: boolean

  /** Calls `listener` after each change. Returns how to stop. */
  listen(listener: () => void): () => void {
    if (this.over) return () => {}
    const listeners = (this.listeners ??= new Set())
    listeners.add(listener)
    return () => {
      listeners.delete(listener)
    }
  }

  protected notify(): void {
    for (const listener of this.listeners ?? []) listener()
  }

  /** What `take` returns as soon as it is something. */
  protected when<A>(take: () => A | undefined): Effect.Effect<A> {
    return Effect.callback((resume) => {
      const now = take()
      if (now !== undefined) return resume(Effect.succeed(now))
      const stop = this.listen(() => {
        const then = take()
        if (then === undefined) return
        stop()
        resume(Effect.succeed(then))
      })
      return Effect.sync(stop)
    })
  }
}
