/**
 * A dispatched run as the machine that {@link transition} describes: each event moves its state, and the actions are performed here.
 *
 * A run at work has the fibers of its drive. One that waits has none and is this object alone: a class, so that what every
 * handle can do is there once. Its streams and effects are made when they are asked for.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Cancellation from "../../../agent/Cancellation.ts"
import type { RunError } from "../../../domain/RunError.ts"
import type { HandleError, HandleStatus } from "../../AgentHandle.ts"
import type { Gate } from "../conductor/Gate.ts"
import {
  type Driven,
  type Ended,
  type HandleAction,
  type HandleEvent,
  type HandleState,
  initial,
  statusIn,
  transition,
  type DriveIntent
} from "./HandleState.ts"
import { ObservedHandle } from "./ObservedHandle.ts"
import { attempts, type NextAttempt, type Restart } from "./restart.ts"

/** What the machine of a run works with. */
export interface MachineOptions {
  /** What the program that has dispatched the run runs with. */
  readonly context: Context.Context<never>
  readonly conductor?: { readonly gate: Gate } | undefined
  readonly restart?: Restart | undefined
  readonly cancellation?: Cancellation.CancellationToken | undefined
}

export abstract class HandleMachine<Output, E> extends ObservedHandle<Output, E> {
  readonly options: MachineOptions
  private current: HandleState<Output, E>
  private token: Cancellation.CancellationToken | undefined
  /** Takes it out of what it waits in: for a slot, for its time. */
  private withdraw: (() => void) | undefined
  private nextAttempt: NextAttempt | undefined
  private unlink: (() => void) | undefined

  constructor(options: MachineOptions) {
    super()
    this.options = options
    this.current = initial({
      needsSlot: options.conductor !== undefined,
      isRestarted: options.restart !== undefined
    })
  }

  /** Works on the run until it is held or over. */
  protected abstract drive(
    token: Cancellation.CancellationToken
  ): Effect.Effect<Driven<Output>, HandleError | E>
  /** It is not worked on here from now on, and something may make it go on. */
  protected abstract parked(): void
  /** Ends what {@link parked} has begun. */
  protected abstract unparked(): void
  /** Whether something came in that the drive has not seen. */
  protected hasNews(): boolean {
    return false
  }
  /** How it stands, or what it waits for, is not as it was. */
  protected abstract changed(): void
  /** It is over. */
  protected abstract cleanUp(): void

  /** Whether this handle will see nothing more of it. */
  get over(): boolean {
    return this.current.phase._tag === "over"
  }

  /** What it came to when it was held last, or in the end. */
  get exit(): Ended<Output, E> | undefined {
    return this.current.exit
  }

  protected get outcome(): Ended<Output, E> | undefined {
    return this.exit
  }

  protected get currentStatus(): HandleStatus {
    return statusIn(this.current)
  }

  /** Why it is to end. */
  get cancelReason(): string | undefined {
    return this.current.cancelReason
  }

  /** Whether it is to be gone on with, or only looked at. */
  get urge(): DriveIntent {
    const { phase } = this.current
    return phase._tag === "driving" ? phase.urge : "goOn"
  }

  /** Whether this process works on it. */
  protected get isDriven(): boolean {
    return this.current.phase._tag === "driving"
  }

  /** Begins, as soon as there is a slot; with one that it has already, at once. */
  begin(hasSlot = false): void {
    this.dispatch({ _tag: "begin", hasSlot, cancelReason: this.link() })
  }

  /** Takes what is known of it without having worked on it. */
  protected stands(result: Driven<Output>): void {
    this.dispatch({ _tag: "found", result, hasNews: this.hasNews(), cancelReason: this.link() })
  }

  /** Goes on with a run that is not worked on here, or looks how it stands. */
  resume(urge: DriveIntent = "goOn"): void {
    this.dispatch({ _tag: "call", urge })
  }

  /** Goes on only when all is sent that belongs together. */
  protected sending<A, F>(send: Effect.Effect<A, F>): Effect.Effect<A, F> {
    return Effect.suspend(() => {
      this.dispatch({ _tag: "sending" })
      return Effect.ensuring(
        send,
        Effect.sync(() => this.dispatch({ _tag: "sent", hasNews: this.hasNews() }))
      )
    })
  }

  cancelNow(reason: string): void {
    this.dispatch({ _tag: "cancel", reason })
  }

  /** This handle is done with it. */
  finish(exit: Ended<Output, E>): void {
    this.dispatch({ _tag: "finish", exit })
  }

  /** Does something with what the program runs with. */
  launch<A, F>(effect: Effect.Effect<A, F>): Fiber.Fiber<A, F> {
    return Effect.runForkWith(this.options.context)(effect)
  }

  /** Cancels it when its token is cancelled. Returns why, where that was so already. */
  private link(): string | undefined {
    const { cancellation } = this.options
    const reason = cancellation?.reason()
    if (this.cancelReason === undefined && reason === undefined)
      this.unlink = cancellation?.onCancel((why) => this.cancelNow(why))
    return reason
  }

  private dispatch(event: HandleEvent<Output, E>): void {
    const [next, actions] = transition(this.current, event)
    this.current = next
    for (const action of actions) this.perform(action, next)
  }

  private perform(action: HandleAction<Output, E>, { phase }: HandleState<Output, E>): void {
    switch (action._tag) {
      case "notify":
        return this.changed()
      case "enterGate":
        return this.enterGate(action.wasAtWork)
      case "leaveGate":
        return this.options.conductor?.gate.leave()
      case "withdraw":
        this.withdraw?.()
        this.withdraw = undefined
        return
      case "drive":
        return this.launchDrive()
      case "cancelDrive":
        return this.token?.cancel(action.reason)
      case "park":
        // A listener may have made it go on already.
        return this.current.phase === phase ? this.parked() : undefined
      case "unpark":
        return this.unparked()
      case "backOff":
        return this.backOff(action.error, action.exit)
      case "cleanUp":
        this.unlink?.()
        return this.cleanUp()
    }
  }

  private enterGate(wasAtWork: boolean): void {
    let isPlaced = false
    const withdraw = this.options.conductor?.gate.enter(() => {
      isPlaced = true
      this.withdraw = undefined
      this.dispatch({ _tag: "slotGranted" })
    }, wasAtWork)
    if (!isPlaced) this.withdraw = withdraw
  }

  private launchDrive(): void {
    const token = Cancellation.make()
    this.token = token
    if (this.cancelReason !== undefined) token.cancel(this.cancelReason)
    this.launch(this.drive(token)).addObserver((exit) => {
      this.token = undefined
      this.dispatch({ _tag: "driven", exit, hasNews: this.hasNews() })
    })
  }

  private backOff(error: RunError, exit: Ended<Output, E>): void {
    const { restart } = this.options
    if (restart === undefined) return this.finish(exit)
    const waiting = Effect.gen({ self: this }, function* () {
      this.nextAttempt ??= yield* attempts(restart)
      const delay = yield* this.nextAttempt(error, yield* Clock.currentTimeMillis)
      if (delay !== undefined) yield* Effect.sleep(delay)
      return delay !== undefined
    })
    let isOver = false
    const fiber = this.launch(waiting)
    fiber.addObserver((waited) => {
      isOver = true
      this.withdraw = undefined
      if (Exit.isSuccess(waited) && waited.value) this.dispatch({ _tag: "retry" })
      // A schedule that throws gives up.
      else if (Exit.isSuccess(waited) || !Cause.hasInterruptsOnly(waited.cause)) this.finish(exit)
    })
    if (!isOver) this.withdraw = () => fiber.interruptUnsafe()
  }
}
