/**
 * Tells whoever listens in this process that something happened; what exactly is theirs to find out.
 */
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"

/** Something that can be told. */
export interface Signal {
  readonly tell: Effect.Effect<void>
  /** Emits when it begins to listen, and for everything that is told from then on; what is told while nobody looks, once. */
  readonly told: Stream.Stream<void>
}

export const makeSignal = (): Signal => {
  const listeners = new Set<() => void>()
  return {
    tell: Effect.sync(() => {
      for (const listener of listeners) listener()
    }),
    told: Stream.callback<void>(
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
