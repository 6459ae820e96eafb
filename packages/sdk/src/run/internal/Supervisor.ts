/**
 * Supervises the work that a loop waits for: model calls, tool bodies, rules and callbacks of the program.
 *
 * The loop itself is never interrupted, since it has to record every outcome. Its work runs in a fiber of its own, or outside of Effect,
 * and is stopped when the run is cancelled or suspended, or at its deadline. The loop reads the outcome from the exit. Work that has not
 * ended within its grace period after a stop is abandoned: its later outcome is dropped.
 */
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Cancellation from "../../agent/Cancellation.ts"
import { setDeadline, setTimed, type Timed, unsetTimed } from "../../agent/internal/deadlines.ts"
import { attempt, graceMs } from "../../agent/internal/userCode.ts"
import type { Runtime } from "../../agent/Runtime.ts"

/** A time limit, and the error with which work fails when it exceeds the limit. */
export interface Deadline<E> {
  readonly ms: number
  readonly late: (ms: number) => E
}

/** Work that has been started, such as a fiber or a promise. */
export interface Running<A, E> {
  /** Calls the observer once, with the exit. */
  readonly follow: (observer: { readonly ended: (exit: Exit.Exit<A, E>) => void }) => void
  /** Asks the work to end. */
  readonly stop: () => void
  /** Called if the work has not ended within its grace period, before its outcome is decided. */
  readonly abandon?: () => void
}

/** One item of concurrent work. */
export interface Work<A, E, E2> {
  begin(): Effect.Effect<A, E> | Running<A, E>
  /** The time limit, read when the work begins, since earlier work may have consumed some of the time left. */
  deadline?(): Deadline<E2>
  onEnd(exit: Exit.Exit<A, E | E2>): void
  /** Called instead of `begin` and `onEnd` if the work does not begin. */
  onSkip(): void
}

/** Restores the interruptibility of the caller, as `Effect.uninterruptibleMask` passes it. */
export type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

type Tokens = readonly [Cancellation.CancellationToken, ...ReadonlyArray<Cancellation.CancellationToken>]

/** The clock and the runtime of supervised work. */
interface Surroundings {
  readonly clock: Clock.Clock
  readonly runtime: Runtime
}

/** Supervises the work of one loop until one of the tokens is cancelled. Allocated once per driven run; keep it small. */
export class Supervisor {
  readonly around: Surroundings
  /** The tokens that stop the work. The first is the loop's own. */
  readonly tokens: Tokens
  /** Set if the loop runs in the fiber of a caller, which may be interrupted. */
  restoreCaller: Restore | undefined = undefined

  constructor(around: Surroundings, tokens: Tokens) {
    this.around = around
    this.tokens = tokens
  }

  /** Runs work with the context of the current fiber, and returns its exit. */
  run<A, E, E2 = never>(
    work: Effect.Effect<A, E> | Running<A, E>,
    deadline?: Deadline<E2>
  ): Effect.Effect<Exit.Exit<A, E | E2>> {
    if (Exit.isExit(work)) return Exit.succeed(work as Exit.Exit<A, E>)
    return Effect.withFiber(({ context }) => {
      if (this.isStopped()) return Exit.succeed(Exit.interrupt())
      const begun = this.begin(context, work, deadline)
      return begun instanceof Flight ? this.waiting(begun.wait) : Exit.succeed(begun)
    })
  }

  /**
   * Runs the work, at most `most` items at a time and at least one, and waits for all. Each outcome is reported when the item ends. Items
   * beyond the first `most` begin only if `mayBegin` returns `true` at that time; otherwise they are skipped.
   */
  all(
    work: ReadonlyArray<Work<unknown, unknown, unknown>>,
    most: number,
    mayBegin: () => Effect.Effect<boolean>
  ): Effect.Effect<void> {
    const concurrency = Math.max(1, most)
    const [only] = work
    if (only === undefined) return Effect.void
    if (work.length === 1) return this.one(only, (wait) => this.waiting(wait))
    const each = Effect.forEach(
      work,
      (one, index) =>
        index < concurrency
          ? this.one(one)
          : Effect.flatMap(mayBegin(), (may) => (may ? this.one(one) : Effect.sync(() => one.onSkip()))),
      { concurrency, discard: true }
    )
    // Forked, so that an interruption of the caller cancels the token while the work goes on.
    return Effect.flatMap(Effect.forkDetach(each, { startImmediately: true }), (fiber) =>
      // A defect of one item fails the loop.
      Effect.flatten(this.waiting(Fiber.await(fiber)))
    )
  }

  /**
   * Runs one try of supervised work in the fiber of that work. A stop ends the try within its grace period, and `onEnd` receives its exit
   * before the fiber is interrupted.
   */
  runTry<A, E, E2>(
    begin: () => Exit.Exit<A, E> | Running<A, E>,
    deadline: Deadline<E2>,
    onEnd: (exit: Exit.Exit<A, E | E2>) => void
  ): Effect.Effect<A, E | E2> {
    const ended = (exit: Exit.Exit<A, E | E2>) => {
      onEnd(exit)
      return exit
    }
    return Effect.withFiber(({ context }) => {
      if (this.isStopped()) return Exit.interrupt()
      const begun = this.begin(context, begin(), deadline)
      return begun instanceof Flight
        ? Effect.uninterruptible(Effect.flatMap(begun.wait, ended))
        : ended(begun)
    })
  }

  /** Runs one item. `waiting` wraps the wait for its end. */
  private one<A, E, E2>(
    work: Work<A, E, E2>,
    waiting: <B>(wait: Effect.Effect<B>) => Effect.Effect<B> = (wait) => wait
  ): Effect.Effect<void> {
    return Effect.withFiber(({ context }) => {
      if (this.isStopped()) return Effect.sync(() => work.onSkip())
      const begun = this.begin(
        context,
        attempt(() => work.begin()),
        work.deadline?.()
      )
      if (begun instanceof Flight) return Effect.map(waiting(begun.wait), (exit) => work.onEnd(exit))
      work.onEnd(begun)
      return Effect.void
    })
  }

  /**
   * Waits in the fiber of a caller for work that ends when the run is stopped. An interruption of the caller cancels the run, and takes
   * effect after the run has ended.
   */
  private waiting<A>(wait: Effect.Effect<A>): Effect.Effect<A> {
    const { restoreCaller, tokens } = this
    if (restoreCaller === undefined) return wait
    return Effect.catchCause(restoreCaller(wait), () => {
      tokens[0].cancel("The program interrupted the run.")
      return wait
    })
  }

  isStopped(): boolean {
    return this.tokens.some((token) => token.reason() !== undefined)
  }

  /** Begins work. Returns its exit if it has ended synchronously. */
  private begin<A, E, E2>(
    context: Context.Context<never>,
    work: Effect.Effect<A, E> | Running<A, E>,
    deadline: Deadline<E2> | undefined
  ): Exit.Exit<A, E | E2> | Flight<A, E, E2> {
    if (Exit.isExit(work)) return work as Exit.Exit<A, E>
    if (!Effect.isEffect(work)) return new Flight(this, work, deadline)
    const fiber = Effect.runForkWith(context)(work)
    return fiber.pollUnsafe() ?? new Flight(this, ofFiber(fiber), deadline)
  }
}

const ofFiber = <A, E>(fiber: Fiber.Fiber<A, E>): Running<A, E> => ({
  follow: (observer) => {
    fiber.addObserver((exit) => observer.ended(exit))
  },
  stop: () => fiber.interruptUnsafe()
})

/** Work in flight. A cancelled token or its deadline stops it. Allocated for each model call and body in flight; keep it small. */
class Flight<A, E, E2> implements Timed {
  dueAt = 0
  dueAfter = 0
  private readonly supervisor: Supervisor
  private unlinks: ReadonlyArray<() => void> = []
  private running: Running<A, E> | undefined
  private readonly late: Deadline<E2>["late"] | undefined
  private isLate = false
  private grace: (() => void) | undefined = undefined
  private exit: Exit.Exit<A, E | E2> | undefined = undefined
  private resume: ((exit: Exit.Exit<Exit.Exit<A, E | E2>>) => void) | undefined = undefined

  constructor(supervisor: Supervisor, running: Running<A, E>, deadline: Deadline<E2> | undefined) {
    this.supervisor = supervisor
    this.running = running
    this.late = deadline?.late
    if (deadline !== undefined) setTimed(supervisor.around.clock, deadline.ms, this)
    running.follow(this)
    // If the work has stopped the run already, `onCancel` calls `stop` now.
    const stop = () => this.stop()
    this.unlinks = supervisor.tokens.map((token) => token.onCancel(stop))
    if (this.running === undefined) this.unlink()
  }

  /** Waits until the work has ended or is abandoned. */
  get wait(): Effect.Effect<Exit.Exit<A, E | E2>> {
    return Effect.callback((resume) => {
      if (this.exit === undefined) this.resume = resume
      else resume(Exit.succeed(this.exit))
    })
  }

  private unlink(): void {
    for (const unlink of this.unlinks) unlink()
  }

  due(): void {
    this.isLate = true
    this.stop()
  }

  /** Asks the work to end, and abandons it after the grace period. */
  stop(): void {
    if (this.running === undefined || this.grace !== undefined) return
    const { running } = this
    running.stop()
    if (this.running === undefined) return
    const { clock, runtime } = this.supervisor.around
    this.grace = setDeadline(clock, graceMs(runtime), () => {
      if (this.running !== undefined) running.abandon?.()
      this.ended(Exit.interrupt())
    })
  }

  ended(exit: Exit.Exit<A, E>): void {
    // It was abandoned.
    if (this.running === undefined) return
    const { late, supervisor } = this
    this.running = undefined
    this.grace?.()
    this.unlink()
    if (late !== undefined) unsetTimed(supervisor.around.clock, this)
    const isTimedOut = late !== undefined && this.isLate && !supervisor.isStopped() && isInterrupted(exit)
    this.exit = isTimedOut ? Exit.fail(late(this.dueAfter)) : exit
    this.resume?.(Exit.succeed(this.exit))
  }
}

const isInterrupted = (exit: Exit.Exit<unknown, unknown>): boolean =>
  Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)
