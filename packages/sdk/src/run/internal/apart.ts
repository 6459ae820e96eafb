/**
 * What may take long, apart from the loop: an effect in a fiber of its own, anything else as it is.
 *
 * The loop itself is never interrupted: it has to say what became of everything. What it waits for runs apart from it, and is
 * stopped when the run is cancelled or let go of, or when its time is up; the loop then reads from its exit what happened. What has
 * not ended by itself within its grace period is left behind: what it comes to then is nobody's to know.
 */
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Cancellation from "../../agent/Cancellation.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import { setTimed, type Timed, unsetTimed } from "./deadlines.ts"
import { attempt, graceMs } from "../../agent/internal/userCode.ts"

/** How long something may take, and what it fails with then. */
export interface Deadline<E> {
  readonly ms: number
  readonly late: (ms: number) => E
}

/** Something outside of Effect, like a promise, that ends by itself. */
export interface Running<A, E> {
  /** Goes on, and tells once how it has ended. */
  readonly follow: (waiting: Waiting<A, E>) => void
  /** Tells it to end. */
  readonly stop: () => void
}

/** Whoever is told how something has ended. */
interface Waiting<A, E> {
  readonly ended: (exit: Exit.Exit<A, E>) => void
}

/** One of several that run apart at the same time. */
export interface Work<A, E, E2> {
  begin(): Effect.Effect<A, E> | Running<A, E>
  /** How long it may take, asked when it is begun: others may have used up some of what was left. */
  deadline?(): Deadline<E2>
  onEnd(exit: Exit.Exit<A, E | E2>): void
  /** Told instead where it was not begun any more. */
  onSkip(): void
}

/** Makes an effect interruptible again, where its caller was. */
type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

type Tokens = readonly [Cancellation.CancellationToken, ...ReadonlyArray<Cancellation.CancellationToken>]

/** What runs apart, whatever it comes to: the loop reads it from the exit. */
type AnyWork = Work<any, any, any>
type AnyFlight = Flight<any, any, any>
type AnyAwaited = Awaited<any, any, any, any, any>

/** What is to be known about whatever runs apart. */
interface Surroundings {
  readonly clock: Clock.Clock
  readonly runtime: Runtime
}

/**
 * Runs things apart from a loop, until one of the tokens is cancelled. Each loop has its own, and waits for one thing at a time, or for
 * several together. It lives as long as the run waits: small, and what it needs to wait is made once.
 */
export class Apart {
  readonly around: Surroundings
  /** Those that stop what runs apart. The first is the loop's own. */
  readonly tokens: Tokens
  /** What the fiber of the loop was given: what runs apart has it too. */
  private readonly context: Context.Context<never>
  private readonly restoreCaller: Restore | undefined
  private flights: AnyFlight | Set<AnyFlight> | undefined = undefined
  private awaited: AnyAwaited | undefined = undefined
  private unlinks: ReadonlyArray<() => void> | undefined = undefined
  private asleep: Effect.Effect<void> | undefined = undefined
  private resume: ((effect: Effect.Effect<void>) => void) | undefined = undefined
  private isAwake = false

  constructor(
    around: Surroundings,
    tokens: Tokens,
    context: Context.Context<never>,
    restoreCaller?: Restore
  ) {
    this.around = around
    this.tokens = tokens
    this.context = context
    this.restoreCaller = restoreCaller
  }

  /**
   * Waits for something that ends by itself when the run is stopped. In the fiber of a caller: an interruption cancels the run, and is
   * acted on when the run has ended. Without one nobody but the tokens interrupts.
   */
  waiting(wait: Effect.Effect<void>): Effect.Effect<void> {
    const { restoreCaller, tokens } = this
    if (restoreCaller === undefined) return wait
    const [token] = tokens
    return Effect.catchCause(restoreCaller(wait), (_interrupted) => {
      token.cancel("The program that ran it stopped it.")
      return wait
    })
  }

  /** Runs an effect apart from the loop, and waits for it. What is there already takes no time. */
  run<A, E, E2 = never>(effect: Effect.Effect<A, E>, deadline?: Deadline<E2>): Effect.Effect<A, E | E2> {
    return this.goOn(effect, deadline, asItEnded<A, E | E2>)
  }

  /** Runs something apart from the loop, and goes on with how it has ended: at once, if it has. */
  goOn<A, E, E2, B, E3>(
    work: Effect.Effect<A, E> | Running<A, E>,
    deadline: Deadline<E2> | undefined,
    next: (exit: Exit.Exit<A, E | E2>) => Effect.Effect<B, E3>
  ): Effect.Effect<B, E3> {
    const begun = this.isStopped() && !Exit.isExit(work) ? Exit.interrupt() : this.begin(work)
    if (Exit.isExit(begun)) return next(begun)
    this.startToSleep()
    const flight = new Awaited<A, E, E2, B, E3>(this, next)
    this.awaited = flight
    flight.follow(begun, deadline)
    return Effect.flatMap(this.sleep(), this.awoken)
  }

  /**
   * Runs so many at the same time, one at least, and waits for all. Each is told of its end at once. When some have ended and others
   * have not begun, `mayBegin` says whether those may; they are skipped otherwise.
   */
  all(
    work: ReadonlyArray<AnyWork>,
    most: number,
    mayBegin: () => Effect.Effect<boolean>
  ): Effect.Effect<void> {
    return new Batch(this, work, Math.max(1, most), mayBegin).go(true)
  }

  /** To be called when nothing runs apart any more: nothing has to be stopped. */
  close(): void {
    this.unlinks?.forEach((unlink) => unlink())
    this.unlinks = undefined
  }

  isStopped(): boolean {
    const { tokens } = this
    // Asked often, and in a loop that makes nothing.
    for (let index = 0; index < tokens.length; index += 1) {
      if (tokens[index]!.reason() !== undefined) return true
    }
    return false
  }

  /** Begins an effect; what has ended at once is an exit. */
  begin<A, E>(
    work: Effect.Effect<A, E> | Running<A, E>
  ): Exit.Exit<A, E> | Running<A, E> | Fiber.Fiber<A, E> {
    if (Exit.isExit(work)) return work as Exit.Exit<A, E>
    if (!Effect.isEffect(work)) return work
    const fiber = Effect.runForkWith(this.context)(work)
    return fiber.pollUnsafe() ?? fiber
  }

  /** From now on, a call of {@link wake} ends the next {@link sleep}. */
  startToSleep(): void {
    this.isAwake = false
  }

  sleep(): Effect.Effect<void> {
    this.asleep ??= this.waiting(Effect.callback(this.register))
    return this.asleep
  }

  private readonly register = (resume: (effect: Effect.Effect<void>) => void): void => {
    if (this.isAwake) resume(Effect.void)
    else this.resume = resume
  }

  private readonly awoken = (): Effect.Effect<any, any> => {
    const { awaited } = this
    this.awaited = undefined
    return awaited === undefined ? neverEnded : awaited.goOn()
  }

  wake(): void {
    const { resume } = this
    this.isAwake = true
    this.resume = undefined
    resume?.(Effect.void)
  }

  add(flight: AnyFlight): void {
    if (this.unlinks === undefined) this.link()
    if (this.flights === undefined) this.flights = flight
    else if (this.flights instanceof Set) this.flights.add(flight)
    else this.flights = new Set([this.flights, flight])
  }

  delete(flight: AnyFlight): void {
    if (this.flights === flight) this.flights = undefined
    else if (this.flights instanceof Set) this.flights.delete(flight)
  }

  /** What the loop's own token remembers goes with it; the others stay. */
  private link(): void {
    const [own, ...others] = this.tokens
    own.onCancel(this.stop)
    this.unlinks = others.length === 0 ? none : others.map((token) => token.onCancel(this.stop))
  }

  private readonly stop = (): void => {
    const { flights } = this
    if (flights instanceof Set) for (const flight of flights) flight.stop()
    else flights?.stop()
  }
}

const asItEnded = <A, E>(exit: Exit.Exit<A, E>): Effect.Effect<A, E> => exit

const none: ReadonlyArray<never> = []

const neverEnded = Exit.die(new Error("It has not ended."))

/** Several that run apart, so many at the same time. */
class Batch {
  private readonly apart: Apart
  private readonly work: ReadonlyArray<AnyWork>
  private readonly most: number
  private readonly mayBegin: () => Effect.Effect<boolean>
  private begun = 0
  private open = 0
  private defect: Exit.Exit<never> | undefined = undefined

  constructor(
    apart: Apart,
    work: ReadonlyArray<AnyWork>,
    most: number,
    mayBegin: () => Effect.Effect<boolean>
  ) {
    this.apart = apart
    this.work = work
    this.most = most
    this.mayBegin = mayBegin
  }

  /** Begins what may be begun, and waits for the rest. */
  go(mayBegin: boolean): Effect.Effect<void> {
    const { apart, most, work } = this
    apart.startToSleep()
    while (this.begun < work.length && this.open < most) {
      const one = work[this.begun]!
      this.begun += 1
      // Nothing is begun that is to be stopped.
      if (!mayBegin || apart.isStopped()) {
        this.tell(one, undefined)
        continue
      }
      const out = attempt(() => one.begin())
      const begun = apart.begin<unknown, unknown>(out)
      if (Exit.isExit(begun)) {
        this.tell(one, begun)
        continue
      }
      this.open += 1
      new Member(apart, this, one).follow(begun, one.deadline?.())
    }
    if (this.open === 0) return this.defect ?? Effect.void
    return Effect.flatMap(apart.sleep(), this.goOn)
  }

  private readonly goOn = (): Effect.Effect<void> =>
    this.begun < this.work.length
      ? Effect.flatMapEager(this.mayBegin(), (mayBegin) => this.go(mayBegin))
      : this.go(true)

  ended(one: AnyWork, exit: Exit.Exit<unknown, unknown>): void {
    this.tell(one, exit)
    this.open -= 1
    if (this.open === 0 || this.begun < this.work.length) this.apart.wake()
  }

  /** Whoever is told must not keep the others from ending: it is told last that it has failed. */
  private tell(one: AnyWork, exit: Exit.Exit<unknown, unknown> | undefined): void {
    try {
      if (exit === undefined) one.onSkip()
      else one.onEnd(exit)
    } catch (cause) {
      this.defect ??= Exit.die(cause)
    }
  }
}

/** Something that is going on: stopped when a token is cancelled or its time is up. One waits with every model call: small. */
abstract class Flight<A, E, E2> implements Timed, Waiting<A, E> {
  dueAt = 0
  dueAfter = 0
  protected readonly apart: Apart
  private late: Deadline<E2>["late"] | undefined = undefined
  private isLate = false
  private running: Running<A, E> | Fiber.Fiber<A, E> | undefined = undefined
  private grace: ReturnType<typeof setTimeout> | undefined = undefined

  constructor(apart: Apart) {
    this.apart = apart
  }

  /** Stops it when it has to be, until it has ended. */
  follow(running: Running<A, E> | Fiber.Fiber<A, E>, deadline: Deadline<E2> | undefined): void {
    const { apart } = this
    this.running = running
    apart.add(this)
    if (deadline !== undefined) {
      this.late = deadline.late
      setTimed(apart.around.clock, deadline.ms, this)
    }
    if (Fiber.isFiber(running)) running.addObserver((exit) => this.ended(exit))
    else running.follow(this)
    // What was begun may have stopped the run.
    if (apart.isStopped()) this.stop()
  }

  due(): void {
    this.isLate = true
    this.stop()
  }

  /** Tells it to end. It may be about to, or never: then it is left behind. */
  stop(): void {
    const { running } = this
    if (running === undefined || this.grace !== undefined) return
    if (Fiber.isFiber(running)) running.interruptUnsafe()
    else running.stop()
    if (this.running === undefined) return
    this.grace = setTimeout(() => this.ended(Exit.interrupt()), graceMs(this.apart.around.runtime))
  }

  ended(exit: Exit.Exit<A, E>): void {
    const { apart, late } = this
    // It was left behind.
    if (this.running === undefined) return
    this.running = undefined
    if (this.grace !== undefined) clearTimeout(this.grace)
    apart.delete(this)
    if (late === undefined) return this.told(exit)
    unsetTimed(apart.around.clock, this)
    const isTimedOut = this.isLate && !apart.isStopped() && isInterrupted(exit)
    this.told(isTimedOut ? Exit.fail(late(this.dueAfter)) : exit)
  }

  protected abstract told(exit: Exit.Exit<A, E | E2>): void
}

/** One of several: their batch is told. */
class Member<A, E, E2> extends Flight<A, E, E2> {
  private readonly batch: Batch
  private readonly work: Work<A, E, E2>

  constructor(apart: Apart, batch: Batch, work: Work<A, E, E2>) {
    super(apart)
    this.batch = batch
    this.work = work
  }

  protected told(exit: Exit.Exit<A, E | E2>): void {
    this.batch.ended(this.work, exit)
  }
}

/** One alone: the loop is woken. */
class Awaited<A, E, E2, B, E3> extends Flight<A, E, E2> {
  private readonly next: (exit: Exit.Exit<A, E | E2>) => Effect.Effect<B, E3>
  private end: Exit.Exit<A, E | E2> = neverEnded

  constructor(apart: Apart, next: (exit: Exit.Exit<A, E | E2>) => Effect.Effect<B, E3>) {
    super(apart)
    this.next = next
  }

  goOn(): Effect.Effect<B, E3> {
    return this.next(this.end)
  }

  protected told(exit: Exit.Exit<A, E | E2>): void {
    this.end = exit
    this.apart.wake()
  }
}

const isInterrupted = (exit: Exit.Exit<unknown, unknown>): boolean =>
  Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)
