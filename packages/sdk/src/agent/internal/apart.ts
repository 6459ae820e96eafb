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

/** Runs an effect apart from the loop, and waits for it. */
export interface Apart {
  <A, E, R, E2 = never>(effect: Effect.Effect<A, E, R>, deadline?: Deadline<E2>): Effect.Effect<A, E | E2, R>
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
  const apart = <A, E, R, E2 = never>(effect: Effect.Effect<A, E, R>, deadline?: Deadline<E2>) =>
    Effect.flatMap(
      Effect.forkChild(effect, { startImmediately: true, uninterruptible: false }),
      (fiber): Effect.Effect<A, E | E2> => {
        const done = fiber.pollUnsafe()
        if (done !== undefined) return done
        let isLate = false
        const unlinks = tokens.map((token) => token.onCancel(() => fiber.interruptUnsafe()))
        if (deadline !== undefined) {
          unlinks.push(
            setDeadline(clock, deadline.ms, () => {
              isLate = true
              fiber.interruptUnsafe()
            })
          )
        }
        return Effect.flatMap(waiting(Fiber.await(fiber)), (): Effect.Effect<A, E | E2> => {
          for (const unlink of unlinks) unlink()
          const exit = fiber.pollUnsafe()
          if (exit === undefined) return Effect.die(new Error("What was waited for has not ended."))
          const isStopped = tokens.some((token) => token.reason() !== undefined)
          return isLate && deadline !== undefined && !isStopped && isInterrupted(exit)
            ? Effect.fail(deadline.late())
            : exit
        })
      }
    )
  return Object.assign(apart, { waiting, tokens })
}

const isInterrupted = (exit: Exit.Exit<unknown, unknown>): boolean =>
  Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)
