/**
 * A run and its handle while they are of this process: at work, held, waiting for a place, or over.
 *
 * A run at work has the fibers of its drive. One that waits, for whomever, has none and is this object alone, which is why it is a
 * class: what every handle can do is there once, and its streams and effects are made when somebody asks for them.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import type * as Stream from "effect/Stream"
import * as Cancellation from "../../../agent/Cancellation.ts"
import { isPromise } from "../../../agent/internal/userCode.ts"
import type { Runtime } from "../../../agent/Runtime.ts"
import type { RunUpdate } from "../../../agent/RunUpdate.ts"
import type { Decision, DecisionInput } from "../../../domain/Decision.ts"
import type { RunId, SessionId } from "../../../domain/Id.ts"
import type { Interruption } from "../../../domain/Interruption.ts"
import type { Rejection } from "../../../domain/Rejection.ts"
import type { AgentNotFound, RunError, ToolUnavailable } from "../../../domain/RunError.ts"
import type { RunState } from "../../../domain/RunState.ts"
import type { Explanation } from "../../../durable/explain.ts"
import type { GivenOptions } from "../../../run/internal/startOptions.ts"
import type { Prompt } from "../../../run/prompt.ts"
import type { RunResult } from "../../../run/RunResult.ts"
import type {
  AgentHandle,
  HandleError,
  HandleStatus,
  HandleUpdate,
  SendError,
  HandleSendOptions,
  StoredFault
} from "../../AgentHandle.ts"
import type { ConductorBudgetExceeded, ConductorClosed } from "../../DispatchError.ts"
import type { Gate } from "../conductor/Gate.ts"
import type { Owned, Owner } from "../Owner.ts"
import type { Reader } from "../watch/readers.ts"
import {
  type Driven,
  type Ended,
  type HandleAction,
  type HandleEvent,
  type HandleState,
  initial,
  statusIn,
  transition,
  type Urge
} from "./HandleState.ts"
import { ObservedHandle } from "./ObservedHandle.ts"
import { attempts, type NextAttempt, type Restart } from "./restart.ts"
import { say } from "./say.ts"

export abstract class BaseHandle<Output, E extends StoredFault>
  extends ObservedHandle<Output, E>
  implements AgentHandle<Output, E>, Owned
{
  runId: RunId
  sessionId: SessionId
  readonly runtime: Runtime<Output>
  readonly options: HandleOptions
  /** Whether something has happened in it. */
  begun = false
  /** How it stands, and why. */
  private current: HandleState<Output, E>
  private token: Cancellation.CancellationToken | undefined
  /** Takes it out of what it waits in: for a place, for its time. */
  private withdraw: (() => void) | undefined
  private nextAttempt: NextAttempt | undefined
  private unlink: (() => void) | undefined
  private readers: Set<Reader<RunUpdate>> | undefined

  constructor(
    runtime: Runtime<Output>,
    ids: { readonly runId: RunId; readonly sessionId: SessionId },
    options: HandleOptions
  ) {
    super()
    this.runtime = runtime
    this.runId = ids.runId
    this.sessionId = ids.sessionId
    this.options = options
    this.current = initial({
      needsPlace: options.conductor !== undefined,
      isRestarted: options.restart !== undefined
    })
    options.owner.owned.add(this)
    options.conductor?.onMade(this)
  }

  /** Works on the run until it is held or over. */
  protected abstract drive(
    token: Cancellation.CancellationToken
  ): Effect.Effect<Driven<Output>, HandleError | E>
  /** Nobody here works on it from now on, and something may make it go on. */
  protected abstract parked(): void
  /** Ends what {@link parked} has begun. */
  protected abstract unparked(): void
  /** Whether something came in that the drive has not seen. */
  protected abstract hasNews(): boolean
  /** It is over: lets go of what nobody needs any more. */
  protected abstract ended(): void
  /** Queues a message for its next turn. */
  abstract deliver(prompt: Prompt, messageId: string | undefined): Effect.Effect<void, SendError | E>
  /** The requests that are open now, also those that this handle has not heard of yet. */
  abstract get openRequests(): Effect.Effect<ReadonlyArray<Interruption>, E>
  /** A run that is not begun, and that begins where the open turn of this one did. */
  protected abstract forked(prompt: Prompt, given: GivenOptions): BaseHandle<Output, E>
  abstract get state(): () => RunState | undefined
  abstract close(reason: string): Effect.Effect<void>
  abstract get interruptions(): () => ReadonlyArray<Interruption>
  abstract get events(): Stream.Stream<HandleUpdate, E>
  abstract get decide(): (decision: DecisionInput) => Effect.Effect<Decision, Rejection | E>
  abstract get explain(): Effect.Effect<Explanation, E>

  /** Whether this handle will see nothing more of it. */
  get over(): boolean {
    return this.current.phase._tag === "over"
  }

  /** What it came to when it was held last, or in the end. */
  get exit(): Ended<Output, E> | undefined {
    return this.current.exit
  }

  /** Why it is to end. */
  protected get cancelReason(): string | undefined {
    return this.current.cancelReason
  }

  /** Whether it is to be gone on with, or only looked at. */
  protected get urge(): Urge {
    const { phase } = this.current
    return phase._tag === "driving" ? phase.urge : "goOn"
  }

  /** Whether this process works on it. */
  protected get isDriven(): boolean {
    return this.current.phase._tag === "driving"
  }

  get name(): string | undefined {
    return this.options.name
  }

  protected get currentStatus(): HandleStatus {
    return statusIn(this.current)
  }

  protected get outcome(): Ended<Output, E> | undefined {
    return this.exit
  }

  get cancel() {
    return (reason = "It was cancelled."): Effect.Effect<RunResult<Output>, HandleError | E> =>
      Effect.suspend(() => {
        this.cancelNow(reason)
        return this.done
      })
  }

  get send() {
    return (
      prompt: Prompt,
      options: HandleSendOptions = {}
    ): Effect.Effect<AgentHandle<Output, E>, SendError | E> =>
      Effect.suspend(() => {
        this.dispatch({ _tag: "sending" })
        return Effect.ensuring(
          say(this, prompt, options),
          Effect.sync(() => this.dispatch({ _tag: "sent", hasNews: this.hasNews() }))
        )
      })
  }

  /** Says something to a new run that begins where the open turn of this one did. */
  fork(prompt: Prompt, given: GivenOptions): Effect.Effect<AgentHandle<Output, E>, SendError | E> {
    return Effect.suspend(() => {
      const refused = this.options.conductor?.refuse()
      if (refused !== undefined) return Effect.fail(refused)
      const forked = this.forked(prompt, given)
      forked.begin()
      return Effect.as(forked.beginning, forked)
    })
  }

  /** Begins, as soon as there is a place; with one that it has already, at once. */
  begin(hasPlace = false): void {
    this.dispatch({ _tag: "begin", hasPlace, cancelReason: this.link() })
  }

  /** Cancels it with whatever its token belongs to. Returns why, where that was cancelled already. */
  private link(): string | undefined {
    const { cancellation } = this.options
    const reason = cancellation?.reason()
    if (this.cancelReason === undefined && reason === undefined)
      this.unlink = cancellation?.onCancel((why) => this.cancelNow(why))
    return reason
  }

  /** Waits until it has begun, or never will. */
  protected get hasBegun(): Effect.Effect<void, HandleError | E> {
    return Effect.asVoid(this.when(() => this.begun || this.over || undefined))
  }

  /** Waits until it has begun, or waits for a place, or will not begin. */
  get beginning(): Effect.Effect<void, HandleError | E> {
    return Effect.flatMap(
      this.when(() => this.begun || this.currentStatus === "queued" || this.over || undefined),
      (): Effect.Effect<void, HandleError | E> =>
        this.begun || this.exit === undefined ? Effect.void : Effect.asVoid(this.exit)
    )
  }

  /** Goes on with what nobody here works on, or looks how it stands. */
  resume(urge: Urge = "goOn"): void {
    this.dispatch({ _tag: "call", urge })
  }

  cancelNow(reason: string): void {
    this.dispatch({ _tag: "cancel", reason })
  }

  /** This handle is done with it. */
  finish(exit: Ended<Output, E>): void {
    this.dispatch({ _tag: "finish", exit })
  }

  /** Told everything that happens. */
  protected publish(update: RunUpdate): void {
    if (!this.begun) {
      this.begun = true
      this.notify()
    }
    this.eachReader((reader) => reader.push(update))
    this.options.conductor?.onUpdate(this, update)
    try {
      const told: unknown = this.options.onUpdate?.(update)
      if (isPromise(told)) told.then(undefined, () => {})
    } catch {
      // The watcher's own failure, at once or later; the run is not the place to tell it.
    }
  }

  /** Lets a reader begin. */
  protected addReader(reader: Reader<RunUpdate>): () => void {
    if (this.over) reader.end()
    else (this.readers ??= new Set()).add(reader)
    return () => {
      this.readers?.delete(reader)
    }
  }

  protected eachReader(f: (reader: Reader<RunUpdate>) => void): void {
    for (const reader of this.readers ?? []) f(reader)
  }

  /** Does something with what the program runs with. */
  launch<A, F>(effect: Effect.Effect<A, F>): Fiber.Fiber<A, F> {
    return Effect.runForkWith(this.options.context)(effect)
  }

  /** How it stands, or what it waits for, is not as it was. */
  protected changed(): void {
    this.notify()
    this.options.conductor?.onChange(this)
  }

  /** Takes what is known of it without having worked on it. */
  protected stands(result: Driven<Output>): void {
    this.dispatch({ _tag: "found", result, hasNews: this.hasNews(), cancelReason: this.link() })
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
        return this.cleanUp()
    }
  }

  private enterGate(wasAtWork: boolean): void {
    let isPlaced = false
    const withdraw = this.options.conductor?.gate.enter(() => {
      isPlaced = true
      this.withdraw = undefined
      this.dispatch({ _tag: "placed" })
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

  private cleanUp(): void {
    this.unlink?.()
    this.options.owner.owned.delete(this)
    this.ended()
    this.eachReader((reader) => reader.end(true))
    this.options.conductor?.onOver(this)
  }
}

/** Updates that a reader may be behind. */
export const readerRoom = 256

/** A run of this process, stored or not, whatever its answer is. */
export type AnyHandle = BaseHandle<unknown, StoredFault>

/** What a run is dispatched with, besides its input. */
export interface HandleOptions {
  readonly name?: string | undefined
  readonly owner: Owner
  /** What the program that has dispatched it runs with. */
  readonly context: Context.Context<never>
  readonly clock: Clock.Clock
  /** The conductor that it is dispatched with. */
  readonly conductor?: ConductorLink | undefined
  readonly restart?: Restart | undefined
  readonly onUpdate?: ((update: RunUpdate) => void) | undefined
  readonly cancellation?: Cancellation.CancellationToken | undefined
  readonly keepEvents?: number | undefined
}

/** What a handle knows of the conductor that it belongs to. */
export interface ConductorLink {
  readonly gate: Gate
  readonly onMade: (live: AnyHandle) => void
  readonly onUpdate: (live: AnyHandle, update: RunUpdate) => void
  /** How it stands, or what it waits for, has changed. */
  readonly onChange: (live: AnyHandle) => void
  readonly onOver: (live: AnyHandle) => void
  /** Why there may not be one more; else it is counted. */
  readonly refuse: () => ConductorBudgetExceeded | ConductorClosed | undefined
}

/** The ids of a run that begins: those that its input gives, or new ones. */
export const newIds = (
  { ids }: Runtime,
  given: { readonly runId?: RunId; readonly sessionId?: SessionId },
  { clock }: HandleOptions
) => {
  const now = clock.currentTimeMillisUnsafe()
  return { runId: given.runId ?? ids.runId(now), sessionId: given.sessionId ?? ids.sessionId(now) }
}

/** Fails where a run waits for what no decision can give it: its handle ends with that, and the run stays as it is. */
export const orStuck = <Output>(
  result: RunResult<Output>
): Effect.Effect<RunResult<Output>, AgentNotFound | ToolUnavailable> => {
  const isStuck = result.status === "interrupted" && result.interruptions.length === 0
  const problem = isStuck ? result.missing?.[0] : undefined
  return problem === undefined ? Effect.succeed(result) : Effect.fail(problem)
}

/** What there is to say about a run that waits for a place. */
export const notBegun = ({ runId, runtime }: AnyHandle): Explanation => ({
  runId,
  status: "running",
  waitsFor: [],
  decided: [],
  resuming: [],
  text: `The run ${runId} of ${runtime.agent.name} waits for a place; it has not been begun.`
})
