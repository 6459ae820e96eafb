/**
 * Reads a stream of a process to its end, also if its consumer stops earlier: a pipe that is not read to its end stays open in this
 * process.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as PlatformError from "effect/PlatformError"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"

/** The output of a process, and the end of its reading. */
export interface OutputPump {
  readonly stream: Stream.Stream<Uint8Array, PlatformError.PlatformError>
  /** Discards the rest of the output. Call it when the processes have ended. */
  readonly finish: Effect.Effect<void>
}

/** How long the rest is read, in milliseconds. A process that could not be stopped keeps the pipe open. */
const finishMs = 500

/** How many chunks are queued for the consumer before the process has to wait. */
const waitingChunks = 16

export const pumpOutput = Effect.fnUntraced(function* (
  source: Stream.Stream<Uint8Array, PlatformError.PlatformError>
): Effect.fn.Return<OutputPump> {
  const queue = yield* Queue.bounded<Uint8Array, PlatformError.PlatformError | Cause.Done>(waitingChunks)
  const fiber = yield* Stream.runForEach(source, (chunk) => Queue.offer(queue, chunk)).pipe(
    Effect.matchCauseEffect({
      onSuccess: () => Queue.end(queue),
      onFailure: (cause) => Queue.failCause(queue, cause)
    }),
    Effect.interruptible,
    Effect.forkDetach({ startImmediately: true })
  )
  return {
    stream: Stream.fromQueue(queue),
    finish: Queue.shutdown(queue).pipe(
      Effect.andThen(nativeTimeout(Fiber.await(fiber), finishMs)),
      Effect.andThen(Fiber.interrupt(fiber)),
      Effect.asVoid
    )
  }
})

/** Ends an effect after a time of the system's clock, so that a test's clock does not keep the end of a process waiting. */
export const nativeTimeout = <A>(effect: Effect.Effect<A>, ms: number): Effect.Effect<unknown> =>
  Effect.raceFirst(
    Effect.interruptible(effect),
    Effect.callback<void>((resume) => {
      const timer = setTimeout(() => resume(Effect.void), ms)
      return Effect.sync(() => clearTimeout(timer))
    })
  )
