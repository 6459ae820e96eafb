/**
 * How long somebody else's effect may take, and how long it may take to stop when it was told to.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { Runtime } from "../Runtime.ts"

/** Milliseconds that something may take to end when it was told to. */
export const graceMs = ({ options }: Runtime<any>): number =>
  Math.min(longestMs, Duration.toMillis(Duration.fromInputUnsafe(options.cancelGrace ?? "2 seconds")))

/** A timer that is set to more goes off at once. */
const longestMs = 2 ** 31 - 1

/** Runs somebody else's effect for so long. One that does not stop when it is told to is not waited for. */
export const within = <A, E, E2, R>(
  runtime: Runtime<any>,
  ms: number,
  effect: Effect.Effect<A, E, R>,
  late: () => E2
): Effect.Effect<A, E | E2, R> => bounded(ms, graceMs(runtime), effect, late)

/** Runs an effect of the program with a timeout. One that ignores its interruption is abandoned after `graceMs`. */
export const bounded = <A, E, E2, R>(
  ms: number,
  graceMs: number,
  effect: Effect.Effect<A, E, R>,
  late: () => E2
): Effect.Effect<A, E | E2, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(effect, { startImmediately: true, uninterruptible: false }), (fiber) => {
      const stop = Effect.callback<void>((resume) => {
        const stopped = () => resume(Effect.void)
        fiber.addObserver(stopped)
        fiber.interruptUnsafe()
        if (fiber.pollUnsafe() !== undefined) return
        if (graceMs <= 0) return stopped()
        const timer = setTimeout(stopped, graceMs)
        fiber.addObserver(() => clearTimeout(timer))
      })
      const orElse = () => Effect.andThen(stop, Effect.failSync(late))
      const waiting = Effect.timeoutOrElse(Fiber.join(fiber), { duration: ms, orElse })
      return Effect.onInterrupt(restore(waiting), () => stop)
    })
  )
