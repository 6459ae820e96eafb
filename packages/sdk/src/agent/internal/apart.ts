/**
 * What may take long, in a fiber of its own.
 *
 * The loop itself is never interrupted: it has to say what became of everything. What it waits for runs apart from it, and is
 * interrupted when the run is cancelled or let go of, or when its time is up; the loop then reads from its exit what happened.
 */
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Cancellation from "../Cancellation.ts"
import { setDeadline } from "./deadlines.ts"

/** How long something may take, and what it fails with then. */
export interface Deadline<E> {
  readonly ms: number
  readonly late: () => E
}

/** One of several that run apart at the same time. */
export interface Work<A, E, R, E2> {
  readonly effect: Effect.Effect<A, E, R>
  readonly deadline?: Deadline<E2> | undefined
  readonly onEnd: (exit: Exit.Exit<A, E | E2>) => void
}

/** Runs an effect apart from the loop, and waits for it. */
export interface Apart {
  <A, E, R, E2 = never>(effect: Effect.Effect<A, E, R>, deadline?: Deadline<E2>): Effect.Effect<A, E | E2, R>
  /** Runs several at the same time, and waits for all. Each is told of its end at once. */
  readonly all: <A, E, R, E2 = never>(work: ReadonlyArray<Work<A, E, R, E2>>) => Effect.Effect<void, never, R>
  readonly waiting: Waiting
  /** Those that stop what runs apart. */
  readonly tokens: ReadonlyArray<Cancellation.CancellationToken>
}

/** How the loop waits: for something that ends by itself when the run is stopped. */
export type Waiting = (wait: Effect.Effect<unknown>) => Effect.Effect<void>

/** Waits where nobody but the run's token interrupts. */
export const waitCalmly: Waiting = Effect.asVoid

/** Waits in the fiber of a caller, whose interruption cancels the run and is acted on when the run has ended. */
export const waitForCaller =
  (
    restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>,
    token: Cancellation.CancellationToken
  ): Waiting =>
  (wait) =>
    Effect.suspend(() => {
      if (token.reason() !== undefined) return Effect.asVoid(wait)
      return Effect.flatMap(Effect.exit(restore(wait)), (exit) => {
        if (Exit.isSuccess(exit)) return Effect.void
        token.cancel("The program that ran it stopped it.")
        return Effect.asVoid(wait)
      })
    })

/** Makes the function that runs things apart, until one of the tokens is cancelled. */
export const makeApart = (
  clock: Clock.Clock,
  tokens: ReadonlyArray<Cancellation.CancellationToken>,
  waiting: Waiting
): Apart => {
  const begin = <A, E, R, E2>(
    effect: Effect.Effect<A, E, R>,
    deadline: Deadline<E2> | undefined,
    onEnd: (exit: Exit.Exit<A, E | E2>) => void
  ) => {
    if (tokens.some((token) => token.reason() !== undefined)) {
      // Nothing is begun that is to be stopped.
      return Effect.sync(() => onEnd(Exit.interrupt()))
    }
    return Effect.map(
      Effect.forkChild(effect, { startImmediately: true, uninterruptible: false }),
      (fiber) => {
        const done = fiber.pollUnsafe()
        if (done !== undefined) {
          onEnd(done)
          return fiber
        }
        let isLate = false
        const unlinks = tokens.map((token) => token.onCancel(() => fiber.interruptUnsafe()))
        if (deadline !== undefined) {
          const fire = () => {
            isLate = true
            fiber.interruptUnsafe()
          }
          unlinks.push(setDeadline(clock, deadline.ms, fire))
        }
        fiber.addObserver((exit) => {
          for (const unlink of unlinks) unlink()
          const isStopped = tokens.some((token) => token.reason() !== undefined)
          onEnd(
            isLate && deadline !== undefined && !isStopped && isInterrupted(exit)
              ? Exit.fail(deadline.late())
              : exit
          )
        })
        return fiber
      }
    )
  }
  const wait = (fiber: Fiber.Fiber<unknown, unknown> | void): Effect.Effect<void> =>
    fiber === undefined || fiber.pollUnsafe() !== undefined ? Effect.void : waiting(Fiber.await(fiber))

  const apart = <A, E, R, E2 = never>(effect: Effect.Effect<A, E, R>, deadline?: Deadline<E2>) =>
    Effect.suspend(() => {
      let end: Exit.Exit<A, E | E2> | undefined
      const begun = begin(effect, deadline, (exit) => {
        end = exit
      })
      return Effect.flatMap(
        Effect.flatMap(begun, wait),
        () => end ?? Effect.die(new Error("It has not ended."))
      )
    })
  const all = <A, E, R, E2>(work: ReadonlyArray<Work<A, E, R, E2>>) =>
    Effect.flatMap(
      Effect.forEach(work, ({ deadline, effect, onEnd }) => begin(effect, deadline, onEnd)),
      (fibers) => Effect.forEach(fibers, wait, { discard: true })
    )
  return Object.assign(apart, { all, waiting, tokens })
}

const isInterrupted = (exit: Exit.Exit<unknown, unknown>): boolean =>
  Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)
