/**
 * The machine of a handle: keeps the state that {@link transition} computes, and performs its actions.
 *
 * A running run has the fibers of its drive; a held run without a store has one if a request expires; any other run has none. A waiting run
 * consists of this object, whose streams and effects are made on demand.
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

/** The options of a handle's machine. */
export interface MachineOptions {
  /** The context of the program that dispatched the run, in which its effects run. */
  readonly context: Context.Context<never>
  readonly conductor?: { readonly gate: Gate } | undefined
  readonly restart?: Restart | undefined
  readonly cancellation?: Cancellation.CancellationToken | undefined
}

export abstract class HandleMachine<Output, E> extends ObservedHandle<Output, E> {
  readonly options: MachineOptions
  private current: HandleState<Output, E>
  private token: Cancellation.CancellationToken | undefined
  /** Ends the wait for a slot or for the next attempt. */
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

  /** Drives the run until it is held or has ended. */
  protected abstract drive(
    token: Cancellation.CancellationToken
  ): Effect.Effect<Driven<Output>, HandleError | E>
  /** Starts to watch a run that this process does not drive, for changes that resume it. */
  protected abstract parked(): void
  /** Ends the watch that {@link parked} has started. */
  protected abstract unparked(): void
  /** Whether mail has arrived that the drive has not read. */
  protected hasNews(): boolean {
    return false
  }
  /** Called when the status or the requests of the run have changed. */
  protected abstract changed(): void
  /** Called when the handle stops following the run. */
  protected abstract cleanUp(): void

  /** Whether the handle has stopped following the run. */
  get over(): boolean {
    return this.current.phase._tag === "over"
  }

  /** The outcome of the last hold, or the final one. */
  get exit(): Ended<Output, E> | undefined {
    return this.current.exit
  }

  protected get outcome(): Ended<Output, E> | undefined {
    return this.exit
  }

  protected get currentStatus(): HandleStatus {
    return statusIn(this.current)
  }

  /** The reason of the cancellation, if one was requested. */
  get cancelReason(): string | undefined {
    return this.current.cancelReason
  }

  /** Whether the drive resumes the run, or first reads it. */
  get intent(): DriveIntent {
    const { phase } = this.current
    return phase._tag === "driving" ? phase.intent : "goOn"
  }

  /** Whether the run waits for a slot. */
  protected get waitsForSlot(): boolean {
    return this.current.phase._tag === "queued"
  }

  /** Whether this process drives the run. */
  protected get isDriven(): boolean {
    return this.current.phase._tag === "driving"
  }

  /** Starts the run as soon as it has a slot, if it needs one. With `hasSlot`, it already has one. */
  begin(hasSlot = false): void {
    this.dispatch({ _tag: "begin", hasSlot, cancelReason: this.link() })
  }

  /** Takes over the result of a run that was read from the store. */
  protected stands(result: Driven<Output>): void {
    this.dispatch({ _tag: "found", result, hasNews: this.hasNews(), cancelReason: this.link() })
  }

  /** Takes over what another process has made of a run that waited for its slot. */
  protected overtaken(result: Driven<Output>): void {
    this.dispatch({ _tag: "overtaken", result })
  }

  /** Resumes a run that this process does not drive; with `look`, reads it first. */
  resume(intent: DriveIntent = "goOn"): void {
    this.dispatch({ _tag: "call", intent })
  }

  /** Runs a `send`, during which the run is not resumed: what it delivers belongs together. */
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

  /** Stops following the run, with this outcome. */
  finish(exit: Ended<Output, E>): void {
    this.dispatch({ _tag: "finish", exit })
  }

  /** Forks an effect in the context of the program. */
  launch<A, F>(effect: Effect.Effect<A, F>): Fiber.Fiber<A, F> {
    return Effect.runForkWith(this.options.context)(effect)
  }

  /** Links the run to the token of its options. Returns the reason if the token is already cancelled. */
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
        // A listener may have resumed the run already.
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
    let isGranted = false
    const withdraw = this.options.conductor?.gate.enter(() => {
      isGranted = true
      this.withdraw = undefined
      this.dispatch({ _tag: "slotGranted" })
    }, wasAtWork)
    if (!isGranted) this.withdraw = withdraw
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
      // A schedule that throws counts as exhausted.
      else if (Exit.isSuccess(waited) || !Cause.hasInterruptsOnly(waited.cause)) this.finish(exit)
    })
    if (!isOver) this.withdraw = () => fiber.interruptUnsafe()
  }
}
