/**
 * What a loop waits for: model calls, bodies of tools, rules and callbacks of the program, each supervised while it goes on.
 *
 * The loop itself is never interrupted: it has to say what became of everything. What it waits for goes on in a fiber of its own, or
 * outside of Effect, and is stopped when the run is cancelled or suspended, or when its time is up; the loop reads from the exit
 * what happened. What has not ended within its grace period after that is abandoned: nothing hears of it any more.
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

/** How long something may take, and what it fails with then. */
export interface Deadline<E> {
  readonly ms: number
  readonly late: (ms: number) => E
}

/** Something outside of Effect, like a promise, that ends by itself. */
export interface Running<A, E> {
  /** Goes on, and reports once how it has ended. */
  readonly follow: (observer: { readonly ended: (exit: Exit.Exit<A, E>) => void }) => void
  /** Asks it to end. */
  readonly stop: () => void
}

/** One of several that go on at the same time. */
export interface Work<A, E, E2> {
  begin(): Effect.Effect<A, E> | Running<A, E>
  /** How long it may take, asked when it is begun: others may have used up some of what was left. */
  deadline?(): Deadline<E2>
  onEnd(exit: Exit.Exit<A, E | E2>): void
  /** Called instead where it was not begun any more. */
  onSkip(): void
}

/** Makes an effect interruptible again, where its caller was. */
export type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

type Tokens = readonly [Cancellation.CancellationToken, ...ReadonlyArray<Cancellation.CancellationToken>]

/** What supervised work, and its supervisor, are given. */
interface Surroundings {
  readonly clock: Clock.Clock
  readonly runtime: Runtime
}

/** Supervises what one loop waits for, until one of the tokens is cancelled. It lives as long as the run waits: small. */
export class Supervisor {
  readonly around: Surroundings
  /** Those that stop the work. The first is the loop's own. */
  readonly tokens: Tokens
  /** Set where the loop goes on in the fiber of a caller, which may be interrupted. */
  restoreCaller: Restore | undefined = undefined

  constructor(around: Surroundings, tokens: Tokens) {
    this.around = around
    this.tokens = tokens
  }

  /** How supervised work ends. It has the context of the fiber that waits for it. */
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
   * Runs so many at the same time, one at least, and waits for all. Each is reported as soon as it ends. When some have ended and others
   * have not begun, `mayBegin` says whether those may; they are skipped otherwise.
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
    // The caller is heard while they go on.
    return Effect.flatMap(Effect.forkDetach(each, { startImmediately: true }), (fiber) =>
      // A defect of one fails the loop, and with it the others.
      Effect.flatten(this.waiting(Fiber.await(fiber)))
    )
  }

  /**
   * Runs one try of supervised work, in the fiber of that work. A stop ends the try within its grace period, and `onEnd` gets its exit before
   * the fiber is interrupted.
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

  /** One of several, or the only one. */
  private one<A, E, E2>(
    work: Work<A, E, E2>,
    waiting: <B>(wait: Effect.Effect<B>) => Effect.Effect<B> = (wait) => wait
  ): Effect.Effect<void> {
    return Effect.withFiber(({ context }) => {
      // Nothing is begun that is to be stopped.
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
   * Waits for something that ends by itself when the run is stopped, in the fiber of a caller: an interruption cancels the run, and is
   * acted on when the run has ended.
   */
  private waiting<A>(wait: Effect.Effect<A>): Effect.Effect<A> {
    const { restoreCaller, tokens } = this
    if (restoreCaller === undefined) return wait
    return Effect.catchCause(restoreCaller(wait), () => {
      tokens[0].cancel("The program that ran it stopped it.")
      return wait
    })
  }

  isStopped(): boolean {
    return this.tokens.some((token) => token.reason() !== undefined)
  }

  /** Begins work; what has ended at once is an exit. */
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

/** Work that is going on: stopped when a token is cancelled or its time is up. One waits with every model call: small. */
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
    // What was begun may have stopped the run: then it is stopped here.
    const stop = () => this.stop()
    this.unlinks = supervisor.tokens.map((token) => token.onCancel(stop))
    if (this.running === undefined) this.unlink()
  }

  /** Waits until it has ended, or is abandoned. */
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

  /** Asks it to end. It may be about to, or never: then it is abandoned. */
  stop(): void {
    if (this.running === undefined || this.grace !== undefined) return
    this.running.stop()
    if (this.running === undefined) return
    const { clock, runtime } = this.supervisor.around
    this.grace = setDeadline(clock, graceMs(runtime), () => this.ended(Exit.interrupt()))
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
