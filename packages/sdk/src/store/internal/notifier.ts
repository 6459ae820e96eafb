/**
 * Notifies subscribers in this process that a run may have changed. A notification carries no data; a subscriber reads the store.
 */
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"

/** Publishes notifications without data to subscribers in this process. */
export interface Notifier {
  readonly notify: Effect.Effect<void>
  /** Emits on subscription and after each notification; notifications that arrive while the consumer is busy are merged. */
  readonly notifications: Stream.Stream<void>
}

export const makeNotifier = (): Notifier => {
  const listeners = new Set<() => void>()
  return {
    notify: Effect.sync(() => {
      for (const listener of listeners) listener()
    }),
    notifications: Stream.callback<void>(
      (queue) =>
        Effect.acquireRelease(
          Effect.sync(() => {
            const listener = () => void Queue.offerUnsafe(queue, undefined)
            listeners.add(listener)
            listener()
            return listener
          }),
          (listener) => Effect.sync(() => listeners.delete(listener))
        ),
      { bufferSize: 1, strategy: "sliding" }
    )
  }
}
