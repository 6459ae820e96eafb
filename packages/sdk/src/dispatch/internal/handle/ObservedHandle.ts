/**
 * The part of a handle that observes a run: its status, `wait` and `done`. It allocates nothing before the first listener.
 */
import * as Effect from "effect/Effect"
import type { RunId, SessionId } from "../../../domain/Id.ts"
import type { RunResult } from "../../../run/RunResult.ts"
import type { HandleError, HandleStatus, Observed } from "../../AgentHandle.ts"
import { observed } from "../events/Reader.ts"

export abstract class ObservedHandle<Output, E> {
  private listeners: Set<() => void> | undefined

  abstract readonly runId: RunId
  abstract readonly sessionId: SessionId
  abstract readonly name: string | undefined
  /** Whether the status is final. */
  abstract readonly over: boolean
  protected abstract readonly currentStatus: HandleStatus
  /** The outcome of the last hold, or the final one. */
  protected abstract readonly outcome: Effect.Effect<RunResult<Output>, HandleError | E> | undefined

  get status(): Observed<HandleStatus> {
    return observed({
      current: () => this.currentStatus,
      isOver: () => this.over,
      listen: (listener) => this.listen(listener)
    })
  }

  get wait(): Effect.Effect<RunResult<Output>, HandleError | E> {
    return Effect.flatten(
      this.when(() => (this.over || this.currentStatus === "held" ? this.outcome : undefined))
    )
  }

  get done(): Effect.Effect<RunResult<Output>, HandleError | E> {
    return Effect.flatten(this.when(() => (this.over ? this.outcome : undefined)))
  }

  /** Shows the ids, the name and the status, and nothing of the runtime and its services. */
  toJSON() {
    const { currentStatus: status, name, runId, sessionId } = this
    return { _id: "AgentHandle", runId, sessionId, ...(name === undefined ? {} : { name }), status }
  }

  [Symbol.for("nodejs.util.inspect.custom")]() {
    return this.toJSON()
  }

  /** Calls `listener` after each change. Returns a function that removes it. */
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

  /** Waits until `take` returns a value, which it is asked for now and after each change. */
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
