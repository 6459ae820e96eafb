/**
 * Code of the program that is not Fermata's: what it returns, throws or rejects with, how long it may take, and how a failure of it reads.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { messageOf, text } from "../../domain/Display.ts"
import type { Scrubber } from "../../tool/Scrubber.ts"
import type { AnyServices } from "../../tool/Tool.ts"
import { ToolFailure } from "../../tool/ToolError.ts"
import type { Awaitable } from "../../tool/ToolOptions.ts"
import { setDeadline } from "./deadlines.ts"

/** What code of the program runs with: a runtime, most of the time. */
interface Surroundings {
  /** The services that its effects need. */
  readonly services: AnyServices
  readonly scrubber: Scrubber
  readonly options: { readonly cancelGrace?: Duration.Input }
}

/** Calls a hook of the program. What the hook throws, or rejects with, ends here. */
export const notify = <A>(hook: ((value: A) => void) | undefined, value: A): void => {
  if (hook !== undefined) callOut(() => hook(value))
}

/** Calls a callback of the program. What it throws, or rejects with, ends here. */
export const callOut = (callback: () => unknown): void => {
  const ignore = () => {}
  try {
    const out = callback()
    if (isPromise(out)) out.then(ignore, ignore)
  } catch {
    ignore()
  }
}

/** What a function of the program returns; what it throws, as an exit. */
export const attempt = <A>(begin: () => A): A | Exit.Exit<never> => {
  try {
    return begin()
  } catch (defect) {
    return Exit.die(defect)
  }
}

/** The same of a function that has to return an effect, as a program without types may not. */
export const attemptEffect = <A, E>(begin: () => Effect.Effect<A, E>): Effect.Effect<A, E> => {
  const out = attempt(begin)
  if (attempt(() => Effect.isEffect(out)) === true) return out
  ignoreRejection(out)
  return Exit.die(new TypeError("It has returned something that is no effect."))
}

/** Keeps the rejection of a promise that stands where none belongs from ending the process. */
export const ignoreRejection = (value: unknown): void => {
  if (value instanceof Promise) value.catch(() => {})
}

/** Waits for what a function of the program returns. What it throws is a failure. */
export const awaited = <A>(
  runtime: Surroundings,
  f: () => Awaitable<A, unknown>
): Effect.Effect<A, unknown> =>
  Effect.suspend(() => {
    const out = f()
    if (Effect.isEffect(out)) return Effect.provideContext(out as Effect.Effect<A, unknown>, runtime.services)
    return isPromise<A>(out) ? fromPromise(out) : Effect.succeed(out as A)
  }).pipe(Effect.catchDefect((defect) => Effect.fail(defect)))

/** Like {@link awaited}, with a timeout in milliseconds: the run's lease is held meanwhile. */
export const awaitedWithin = <A>(
  runtime: Surroundings,
  ms: number,
  f: () => Awaitable<A, unknown>
): Effect.Effect<A, unknown> =>
  within(
    runtime,
    ms,
    awaited(runtime, f),
    () => new ToolFailure({ description: `it did not answer within ${ms} ms` })
  )

/** The promise of a program may be rejected with anything. */
const fromPromise = <A>(promise: Promise<A>): Effect.Effect<A, unknown> =>
  Effect.callback((resume) => {
    promise.then(
      (value) => resume(Effect.succeed(value)),
      (cause: unknown) => resume(Effect.fail(cause))
    )
  })

export const isPromise = <A>(value: unknown): value is Promise<A> =>
  typeof value === "object" && value !== null && "then" in value && typeof value.then === "function"

/** Milliseconds that something may take to end after it was interrupted. */
export const graceMs = ({ options }: Surroundings): number =>
  Math.min(longestMs, Duration.toMillis(Duration.fromInputUnsafe(options.cancelGrace ?? "2 seconds")))

/** A timer that is set to more goes off at once. */
const longestMs = 2 ** 31 - 1

/** Runs an effect of the program with a timeout. One that ignores its interruption is abandoned after the runtime's `cancelGrace`. */
export const within = <A, E, E2, R>(
  runtime: Surroundings,
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
      const stop = Clock.clockWith((clock) =>
        Effect.callback<void>((resume) => {
          const stopped = () => resume(Effect.void)
          fiber.addObserver(stopped)
          fiber.interruptUnsafe()
          if (fiber.pollUnsafe() !== undefined) return
          if (graceMs <= 0) return stopped()
          fiber.addObserver(setDeadline(clock, graceMs, stopped))
        })
      )
      const orElse = () => Effect.andThen(stop, Effect.failSync(late))
      const waiting = Effect.timeoutOrElse(Fiber.join(fiber), { duration: ms, orElse })
      return Effect.onInterrupt(restore(waiting), () => stop)
    })
  )

/** What went wrong, in words that may be shown: no stack, no secret that the scrubber knows, no control characters. Never throws. */
export const describe = (runtime: Surroundings, cause: unknown): string => {
  try {
    return text(runtime.scrubber.scrub(messageOf(cause)))
  } catch {
    return "an error that cannot be shown"
  }
}
