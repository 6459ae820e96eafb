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
import type * as Cancellation from "../Cancellation.ts"
import { setDeadline } from "./deadlines.ts"

/** How long something may take, and what it fails with then. */
export interface Deadline<E> {
  readonly ms: number
  readonly late: () => E
}

/** Something outside of Effect that was begun and ends by itself, like a promise. */
export interface Running<A, E> {
  /** Tells `end` once how it has ended. */
  readonly onEnd: (end: (exit: Exit.Exit<A, E>) => void) => void
  /** Tells it to end. */
  readonly stop: () => void
}

/** One of several that run apart at the same time. */
export interface Work<A, E, R, E2> {
  readonly begin: () => Effect.Effect<A, E, R> | Running<A, E>
  readonly deadline?: Deadline<E2> | undefined
  readonly onEnd: (exit: Exit.Exit<A, E | E2>) => void
}

/** Runs an effect apart from the loop, and waits for it. */
export interface Apart {
  <A, E, R, E2 = never>(effect: Effect.Effect<A, E, R>, deadline?: Deadline<E2>): Effect.Effect<A, E | E2, R>
  /** Runs so many at the same time, and waits for all. Each is told of its end at once. */
  readonly all: <A, E, R, E2 = never>(
    work: ReadonlyArray<Work<A, E, R, E2>>,
    most: number
  ) => Effect.Effect<void, never, R>
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
  const isStopped = () => tokens.some((token) => token.reason() !== undefined)

  /** Stops it when a token is cancelled or its time is up, until it has ended. */
  const follow = <A, E, R, E2>(
    { onEnd, stop }: Running<A, E>,
    { deadline, onEnd: end }: Work<A, E, R, E2>,
    after: () => void
  ): void => {
    let isLate = false
    const unlinks = tokens.map((token) => token.onCancel(stop))
    if (deadline !== undefined) {
      const fire = () => {
        isLate = true
        stop()
      }
      unlinks.push(setDeadline(clock, deadline.ms, fire))
    }
    onEnd((exit) => {
      for (const unlink of unlinks) unlink()
      const late = isLate && deadline !== undefined && !isStopped() && isInterrupted(exit)
      end(late ? Exit.fail(deadline.late()) : exit)
      after()
    })
  }

  const all = <A, E, R, E2>(
    work: ReadonlyArray<Work<A, E, R, E2>>,
    most: number
  ): Effect.Effect<void, never, R> => {
    let begun = 0
    let open = 0
    let wake: (() => void) | undefined
    const isDone = () => open === 0 || (open < most && begun < work.length)
    const ended = () => {
      open -= 1
      if (isDone()) wake?.()
    }
    const wait = Effect.callback<void>((resume) => {
      wake = () => resume(Effect.void)
      if (isDone()) wake()
    })
    const fork = (effect: Effect.Effect<A, E, R>, one: Work<A, E, R, E2>): Effect.Effect<void, never, R> =>
      Effect.map(Effect.forkChild(effect, { startImmediately: true, uninterruptible: false }), (fiber) => {
        const done = fiber.pollUnsafe()
        if (done !== undefined) {
          one.onEnd(done)
          return ended()
        }
        const running: Running<A, E> = {
          onEnd: (end) => void fiber.addObserver(end),
          stop: () => fiber.interruptUnsafe()
        }
        return follow(running, one, ended)
      })
    const go: Effect.Effect<void, never, R> = Effect.suspend(() => {
      while (begun < work.length && open < most) {
        const one = work[begun]!
        begun += 1
        // Nothing is begun that is to be stopped.
        const out = isStopped() ? Exit.interrupt() : attempt(one.begin)
        if (Exit.isExit(out)) {
          one.onEnd(out as Exit.Exit<A, E>)
          continue
        }
        open += 1
        if (Effect.isEffect(out)) return Effect.flatMap(fork(out as Effect.Effect<A, E, R>, one), () => go)
        follow(out, one, ended)
      }
      if (open === 0) return Effect.void
      const waited = waiting(wait)
      return begun === work.length ? waited : Effect.flatMap(waited, () => go)
    })
    return go
  }

  const apart = <A, E, R, E2 = never>(effect: Effect.Effect<A, E, R>, deadline?: Deadline<E2>) => {
    // What is there already takes no time.
    if (Exit.isExit(effect)) return effect as Exit.Exit<A, E>
    return Effect.suspend(() => {
      let end: Exit.Exit<A, E | E2> | undefined
      const onEnd = (exit: Exit.Exit<A, E | E2>) => {
        end = exit
      }
      return Effect.flatMap(
        all([{ begin: () => effect, deadline, onEnd }], 1),
        () => end ?? Effect.die(new Error("It has not ended."))
      )
    })
  }
  return Object.assign(apart, { all, waiting, tokens })
}

const attempt = <A>(begin: () => A): A | Exit.Exit<never> => {
  try {
    return begin()
  } catch (defect) {
    return Exit.die(defect)
  }
}

const isInterrupted = (exit: Exit.Exit<unknown, unknown>): boolean =>
  Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)
