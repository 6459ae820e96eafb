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
import { setTimed, type Timed, unsetTimed } from "./deadlines.ts"

/** How long something may take, and what it fails with then. */
export interface Deadline<E> {
  readonly ms: number
  readonly late: (ms: number) => E
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
  /** How long it may take, asked when it is begun: others may have used up some of what was left. */
  readonly deadline?: () => Deadline<E2>
  readonly onEnd: (exit: Exit.Exit<A, E | E2>) => void
}

/** Makes an effect interruptible again, where its caller was. */
type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** Runs things apart, until one of the tokens is cancelled. One is made for each run, and waits with it: small. */
export class Apart {
  readonly clock: Clock.Clock
  /** Those that stop what runs apart; the first is the run's. */
  readonly tokens: readonly [Cancellation.CancellationToken, ...ReadonlyArray<Cancellation.CancellationToken>]
  private readonly restoreCaller: Restore | undefined

  constructor(clock: Clock.Clock, tokens: Apart["tokens"], restoreCaller?: Restore) {
    this.clock = clock
    this.tokens = tokens
    this.restoreCaller = restoreCaller
  }

  /**
   * Waits for something that ends by itself when the run is stopped. In the fiber of a caller: an interruption cancels the run, and is
   * acted on when the run has ended. Without one nobody but the tokens interrupts.
   */
  waiting(wait: Effect.Effect<void>): Effect.Effect<void> {
    const { restoreCaller, tokens } = this
    const [token] = tokens
    if (restoreCaller === undefined || token.reason() !== undefined) return wait
    return Effect.flatMap(Effect.exit(restoreCaller(wait)), (exit) => {
      if (Exit.isSuccess(exit)) return Effect.void
      token.cancel("The program that ran it stopped it.")
      return wait
    })
  }

  /** Runs an effect apart from the loop, and waits for it. What is there already takes no time. */
  run<A, E, R, E2 = never>(
    effect: Effect.Effect<A, E, R>,
    deadline?: Deadline<E2>
  ): Effect.Effect<A, E | E2, R> {
    if (Exit.isExit(effect)) return effect as Exit.Exit<A, E>
    return Effect.suspend((): Effect.Effect<A, E | E2, R> => {
      if (this.isStopped()) return Exit.interrupt()
      const flight = new Awaited<A, E, E2>(this, deadline)
      return Effect.flatMap(fork(effect), (fiber) => flight.of(fiber))
    })
  }

  /** Runs so many at the same time, and waits for all. Each is told of its end at once. */
  all<A, E, R, E2 = never>(
    work: ReadonlyArray<Work<A, E, R, E2>>,
    most: number
  ): Effect.Effect<void, never, R> {
    let begun = 0
    let open = 0
    let wake: (() => void) | undefined
    let defect: Exit.Exit<never> | undefined
    const isDone = () => open === 0 || (open < most && begun < work.length)
    const wait = Effect.callback<void>((resume) => {
      wake = () => resume(Effect.void)
      if (isDone()) wake()
    })
    // Whoever is told must not keep the others from ending: it is told last that it has failed.
    const tell = ({ onEnd }: Work<A, E, R, E2>, exit: Exit.Exit<A, E | E2>): void => {
      try {
        onEnd(exit)
      } catch (cause) {
        defect ??= Exit.die(cause)
      }
    }
    const follow = (running: Running<A, E> | Fiber.Fiber<A, E>, one: Work<A, E, R, E2>): void =>
      new Told<A, E, E2>(this, one.deadline?.(), (exit) => {
        tell(one, exit)
        open -= 1
        if (isDone()) wake?.()
      }).follow(running)
    const go: Effect.Effect<void, never, R> = Effect.suspend(() => {
      while (begun < work.length && open < most) {
        const one = work[begun]!
        begun += 1
        // Nothing is begun that is to be stopped.
        const out = this.isStopped() ? Exit.interrupt() : attempt(one.begin)
        if (Exit.isExit(out)) {
          tell(one, out as Exit.Exit<A, E>)
          continue
        }
        open += 1
        if (!Effect.isEffect(out)) follow(out, one)
        else {
          return Effect.flatMap(fork(out as Effect.Effect<A, E, R>), (fiber) => {
            follow(fiber, one)
            return go
          })
        }
      }
      if (open === 0) return defect ?? Effect.void
      return Effect.flatMap(this.waiting(wait), () => go)
    })
    return go
  }

  isStopped(): boolean {
    return this.tokens.some((token) => token.reason() !== undefined)
  }
}

// The loop outlives what it runs apart: it need not be told to.
const fork = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<Fiber.Fiber<A, E>, never, R> =>
  Effect.forkDetach(effect, { startImmediately: true, uninterruptible: false })

/** Something that is going on: stopped when a token is cancelled or its time is up. One waits with every model call: small. */
abstract class Flight<A, E, E2> implements Timed {
  dueAt = 0
  dueAfter = 0
  protected readonly apart: Apart
  private readonly deadline: Deadline<E2> | undefined
  private isLate = false
  private running: Running<A, E> | Fiber.Fiber<A, E> | undefined = undefined
  private unlinks: ReadonlyArray<() => void> = []

  constructor(apart: Apart, deadline: Deadline<E2> | undefined) {
    this.apart = apart
    this.deadline = deadline
  }

  /** Stops it when it has to be, until it has ended. */
  follow(running: Running<A, E> | Fiber.Fiber<A, E>): void {
    const { clock, tokens } = this.apart
    this.running = running
    const stop = () => this.stop()
    this.unlinks = tokens.map((token) => token.onCancel(stop))
    if (this.deadline !== undefined) setTimed(clock, this.deadline.ms, this)
    const ended = (exit: Exit.Exit<A, E>) => this.ended(exit)
    if (Fiber.isFiber(running)) running.addObserver(ended)
    else running.onEnd(ended)
  }

  due(): void {
    this.isLate = true
    this.stop()
  }

  protected abstract told(exit: Exit.Exit<A, E | E2>): void

  private stop(): void {
    const { running } = this
    if (Fiber.isFiber(running)) running.interruptUnsafe()
    else running?.stop()
  }

  private ended(exit: Exit.Exit<A, E>): void {
    const { apart, deadline } = this
    for (const unlink of this.unlinks) unlink()
    if (deadline === undefined) return this.told(exit)
    unsetTimed(apart.clock, this)
    const isTimedOut = this.isLate && !apart.isStopped() && isInterrupted(exit)
    this.told(isTimedOut ? Exit.fail(deadline.late(deadline.ms)) : exit)
  }
}

/** One of several: whoever began them is told. */
class Told<A, E, E2> extends Flight<A, E, E2> {
  protected readonly told: (exit: Exit.Exit<A, E | E2>) => void

  constructor(apart: Apart, deadline: Deadline<E2> | undefined, told: (exit: Exit.Exit<A, E | E2>) => void) {
    super(apart, deadline)
    this.told = told
  }
}

/** One alone: it is waited for. */
class Awaited<A, E, E2> extends Flight<A, E, E2> {
  private end: Exit.Exit<A, E | E2> | undefined = undefined
  private wake: ((effect: Effect.Effect<void>) => void) | undefined = undefined

  /** Waits for the end of a fiber. */
  of(fiber: Fiber.Fiber<A, E>): Effect.Effect<A, E | E2> {
    const done = fiber.pollUnsafe()
    if (done !== undefined) return done
    this.follow(fiber)
    const wait = Effect.callback<void>((resume) => {
      if (this.end === undefined) this.wake = resume
      else resume(Effect.void)
    })
    return Effect.flatMap(
      this.apart.waiting(wait),
      () => this.end ?? Effect.die(new Error("It has not ended."))
    )
  }

  protected told(exit: Exit.Exit<A, E | E2>): void {
    this.end = exit
    this.wake?.(Effect.void)
  }
}

/** What somebody else's function returns; what it throws, as an end. */
export const attempt = <A>(begin: () => A): A | Exit.Exit<never> => {
  try {
    return begin()
  } catch (defect) {
    return Exit.die(defect)
  }
}

const isInterrupted = (exit: Exit.Exit<unknown, unknown>): boolean =>
  Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)
