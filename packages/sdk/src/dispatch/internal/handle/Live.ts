/**
 * A run and its handle while they are of this process: at work, held, waiting for a place, or over.
 *
 * A run at work has the fibers of its drive. One that waits, for whomever, has none and is this object alone, which is why it is a
 * class: what every handle can do is there once, and its streams and effects are made when somebody asks for them.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import type * as Stream from "effect/Stream"
import * as Cancellation from "../../../agent/Cancellation.ts"
import type { Explanation } from "../../../durable/explain.ts"
import type { GivenOptions } from "../../../run/internal/startOptions.ts"
import type { Prompt } from "../../../run/prompt.ts"
import type { RunResult } from "../../../run/RunResult.ts"
import type { Runtime } from "../../../agent/Runtime.ts"
import type { RunUpdate } from "../../../agent/RunUpdate.ts"
import type { Decision, DecisionInput } from "../../../domain/Decision.ts"
import type { RunId, SessionId } from "../../../domain/Id.ts"
import type { Interruption } from "../../../domain/Interruption.ts"
import type { Rejection } from "../../../domain/Rejection.ts"
import type { RunState } from "../../../domain/RunState.ts"
import type { RunError } from "../../../domain/RunError.ts"
import type {
  AgentHandle,
  HandleError,
  HandleStatus,
  HandleUpdate,
  Observed,
  SendError,
  SendOptions,
  StoredFault
} from "../../AgentHandle.ts"
import type { Owned, Owner } from "../Owner.ts"
import { observed, type Reader } from "../watch/readers.ts"
import { type Driven, elsewhere, type Ended, statusOf } from "./ended.ts"
import { attempts, mayPass, type NextAttempt, type Restart } from "./restart.ts"
import { Watchable } from "../watch/Watchable.ts"
import { say } from "./say.ts"
import { isPromise } from "../../../agent/internal/userCode.ts"
import type * as Context from "effect/Context"
import type { ConductorBudgetExceeded, ConductorClosed } from "../../DispatchError.ts"
import type { Gate } from "../conductor/Gate.ts"

export abstract class Live<Output, E extends StoredFault>
  extends Watchable
  implements AgentHandle<Output, E>, Owned
{
  runId: RunId
  sessionId: SessionId
  readonly runtime: Runtime<Output>
  readonly options: LiveOptions
  /** Whether something has happened in it. */
  begun = false
  /** Whether this handle will see nothing more of it. */
  over = false
  /** What it came to when it was held last, or in the end. */
  exit: Ended<Output, E> | undefined
  /** Why it is to end. */
  protected cancelReason: string | undefined
  private now: HandleStatus = "queued"
  private token: Cancellation.CancellationToken | undefined
  private hasPlace = false
  /** Takes it out of what it waits in: for a place, for its time. */
  private withdraw: (() => void) | undefined
  /** Whether it is to be gone on with, or only looked at. */
  protected urge: "goOn" | "look" = "goOn"
  private nextAttempt: NextAttempt | undefined
  private unlink: (() => void) | undefined
  private readers: Set<Reader<RunUpdate>> | undefined
  /** While it is being found out how the run stands: whether there is something to tell. */
  private untold: boolean | undefined
  /** How much is being sent in several parts. */
  private sending = 0
  /** Whether it is to be gone on with when all of that is sent. */
  private isCalled = false

  constructor(
    runtime: Runtime<Output>,
    ids: { readonly runId: RunId; readonly sessionId: SessionId },
    options: LiveOptions
  ) {
    super()
    this.runtime = runtime
    this.runId = ids.runId
    this.sessionId = ids.sessionId
    this.options = options
    options.owner.owned.add(this)
    options.keeper?.onMade(this)
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
  /** Says something to a new run that begins where the open turn of this one did. */
  abstract fork(prompt: Prompt, given: GivenOptions): Effect.Effect<AgentHandle<Output, E>, SendError | E>
  abstract get state(): () => RunState | undefined
  abstract close(reason: string): Effect.Effect<void>
  abstract get interruptions(): () => ReadonlyArray<Interruption>
  abstract get events(): Stream.Stream<HandleUpdate, E>
  abstract get decide(): (decision: DecisionInput) => Effect.Effect<Decision, Rejection | E>
  abstract get explain(): Effect.Effect<Explanation, E>

  get name(): string | undefined {
    return this.options.name
  }

  get status(): Observed<HandleStatus> {
    return observed({
      current: () => this.now,
      isOver: () => this.over,
      listen: (listener) => this.listen(listener)
    })
  }

  get wait(): Effect.Effect<RunResult<Output>, HandleError | E> {
    return Effect.flatten(this.when(() => (this.over || this.now === "held" ? this.exit : undefined)))
  }

  get done(): Effect.Effect<RunResult<Output>, HandleError | E> {
    return Effect.flatten(this.when(() => (this.over ? this.exit : undefined)))
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
      options: SendOptions = {}
    ): Effect.Effect<AgentHandle<Output, E>, SendError | E> =>
      Effect.suspend(() => {
        this.sending += 1
        return Effect.ensuring(
          say(this, prompt, options),
          Effect.sync(() => {
            this.sending -= 1
            if (this.isCalled || this.hasNews()) this.resume()
          })
        )
      })
  }

  /** What is shown of it: none of what the run works with. */
  toJSON() {
    const { name, now: status, runId, sessionId } = this
    return { _id: "AgentHandle", runId, sessionId, ...(name === undefined ? {} : { name }), status }
  }

  [Symbol.for("nodejs.util.inspect.custom")]() {
    return this.toJSON()
  }

  /** Begins, as soon as there is a place; with one that it has already, at once. */
  begin(hasPlace = false): void {
    this.link()
    this.hasPlace = hasPlace
    if (hasPlace) this.run()
    else this.enter(false)
  }

  /** Cancels it with whatever its token belongs to. */
  protected link(): void {
    const { cancellation } = this.options
    this.cancelReason ??= cancellation?.reason()
    if (this.cancelReason === undefined)
      this.unlink = cancellation?.onCancel((reason) => this.cancelNow(reason))
  }

  /** Whether this process works on it. */
  protected get isDriven(): boolean {
    return this.token !== undefined
  }

  /** Waits until it has begun, or never will. */
  protected get hasBegun(): Effect.Effect<void, HandleError | E> {
    return Effect.asVoid(this.when(() => this.begun || this.over || undefined))
  }

  /** Waits until it has begun, or waits for a place, or will not begin. */
  get beginning(): Effect.Effect<void, HandleError | E> {
    return Effect.flatMap(
      this.when(() => this.begun || this.over || this.now === "queued" || undefined),
      (): Effect.Effect<void, HandleError | E> =>
        this.begun || this.exit === undefined ? Effect.void : Effect.asVoid(this.exit)
    )
  }

  /** Goes on with what nobody here works on, or looks how it stands. */
  resume(urge: "goOn" | "look" = "goOn"): void {
    if (this.over || this.isDriven || this.withdraw !== undefined) return
    this.isCalled = this.sending > 0
    if (this.isCalled) return
    this.unparked()
    this.urge = urge
    this.enter(true)
  }

  cancelNow(reason: string): void {
    if (this.over || this.cancelReason !== undefined) return
    this.cancelReason = reason
    if (this.token !== undefined) return this.token.cancel(reason)
    if (this.withdraw !== undefined) this.withdraw()
    else this.unparked()
    this.withdraw = undefined
    this.run()
  }

  /** This handle is done with it. */
  finish(exit: Ended<Output, E>): void {
    if (this.over) return
    this.withdraw?.()
    this.withdraw = undefined
    this.over = true
    this.exit = exit
    this.unlink?.()
    this.options.owner.owned.delete(this)
    this.ended()
    this.become(statusOf(exit))
    this.eachReader((reader) => reader.end())
    this.options.keeper?.onOver(this)
  }

  /** Told everything that happens. */
  protected tell(update: RunUpdate): void {
    if (!this.begun) {
      this.begun = true
      this.notify()
    }
    this.eachReader((reader) => reader.push(update))
    this.options.keeper?.onTold(this, update)
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

  /** It waits for somebody. */
  private isHeld(): void {
    this.become("held")
    // Whoever was told may have made it go on already.
    if (this.now === "held" && !this.isDriven && this.withdraw === undefined) this.parked()
  }

  /** Somebody else works on it now. */
  protected isElsewhere(): void {
    this.exit = undefined
    this.become("running")
    this.parked()
  }

  /** Does something with what the program runs with. */
  launch<A, F>(effect: Effect.Effect<A, F>): Fiber.Fiber<A, F> {
    return Effect.runForkWith(this.options.context)(effect)
  }

  private become(status: HandleStatus): void {
    this.now = status
    this.changed()
  }

  /** How it stands, or what it waits for, is not as it was. */
  protected changed(): void {
    if (this.untold !== undefined) {
      this.untold = true
      return
    }
    this.notify()
    this.options.keeper?.onChange(this)
  }

  private enter(wasAtWork: boolean): void {
    const { keeper } = this.options
    if (keeper === undefined || this.cancelReason !== undefined) return this.run()
    let entered = false
    const withdraw = keeper.gate.enter(() => {
      entered = true
      this.withdraw = undefined
      this.hasPlace = true
      this.run()
    }, wasAtWork)
    if (entered) return
    this.withdraw = withdraw
    this.become("queued")
  }

  private run(): void {
    const token = Cancellation.make()
    this.token = token
    if (this.cancelReason !== undefined) token.cancel(this.cancelReason)
    this.become("running")
    this.launch(this.drive(token)).addObserver((exit) => this.settled(exit))
  }

  /** Takes what is known of it without having worked on it. */
  protected stands(result: Driven<Output>): void {
    this.act(Exit.succeed(result))
    if (this.over || this.isDriven || this.cancelReason === undefined) return
    this.unparked()
    this.run()
  }

  private settled(exit: Exit.Exit<Driven<Output>, HandleError | E>): void {
    const hadPlace = this.hasPlace
    this.token = undefined
    this.hasPlace = false
    this.untold = false
    this.act(exit)
    const untold = this.takeUntold()
    // What has waited for the place goes on in here, before anybody is told that it is free.
    if (hadPlace) this.options.keeper?.gate.leave()
    if (untold) this.changed()
  }

  private takeUntold(): boolean {
    const { untold = false } = this
    this.untold = undefined
    return untold
  }

  private act(exit: Exit.Exit<Driven<Output>, HandleError | E>): void {
    if (this.over) return
    if (Exit.isFailure(exit)) return this.finish(Exit.failCause(exit.cause))
    const result = exit.value
    if (result === elsewhere) return this.isElsewhere()
    const ended = Exit.succeed(result)
    if (result.status === "interrupted") {
      if (this.cancelReason !== undefined) return this.run()
      this.exit = ended
      if (this.hasNews() && this.sending === 0) return this.enter(true)
      return this.isHeld()
    }
    const { restart } = this.options
    if (restart === undefined || this.cancelReason !== undefined || !mayPass(result))
      return this.finish(ended)
    this.tryAgain(restart, result.error, ended)
  }

  private tryAgain(restart: Restart, error: RunError, ended: Ended<Output, E>): void {
    const waiting = Effect.gen({ self: this }, function* () {
      this.nextAttempt ??= yield* attempts(restart)
      const delay = yield* this.nextAttempt(error, yield* Clock.currentTimeMillis)
      if (delay !== undefined) yield* Effect.sleep(delay)
      return delay !== undefined
    })
    let isOver = false
    const fiber = this.launch(waiting)
    fiber.addObserver((exit) => {
      isOver = true
      this.withdraw = undefined
      if (Exit.isSuccess(exit) && exit.value) this.enter(true)
      // A schedule that throws gives up.
      else if (Exit.isSuccess(exit) || !Cause.hasInterruptsOnly(exit.cause)) this.finish(ended)
    })
    if (isOver) return
    this.withdraw = () => fiber.interruptUnsafe()
    this.become("queued")
  }
}

/** A run of this process, stored or not, whatever its answer is. */
export type AnyLive = Live<unknown, StoredFault>

/** What a run is dispatched with, besides its input. */
export interface LiveOptions {
  readonly name?: string | undefined
  readonly owner: Owner
  /** What the program that has dispatched it runs with. */
  readonly context: Context.Context<never>
  readonly clock: Clock.Clock
  /** The conductor that it is dispatched with. */
  readonly keeper?: Keeper | undefined
  readonly restart?: Restart | undefined
  readonly onUpdate?: ((update: RunUpdate) => void) | undefined
  readonly cancellation?: Cancellation.CancellationToken | undefined
  readonly keepEvents?: number | undefined
}

/** Whoever looks after several runs. */
export interface Keeper {
  readonly gate: Gate
  readonly onMade: (live: AnyLive) => void
  readonly onTold: (live: AnyLive, update: RunUpdate) => void
  /** How it stands, or what it waits for, has changed. */
  readonly onChange: (live: AnyLive) => void
  readonly onOver: (live: AnyLive) => void
  /** Why there may not be one more; else it is counted. */
  readonly refuse: () => ConductorBudgetExceeded | ConductorClosed | undefined
}

/** What there is to say about a run that waits for a place. */
export const notBegun = ({ runId, runtime }: AnyLive): Explanation => ({
  runId,
  status: "running",
  waitsFor: [],
  decided: [],
  resuming: [],
  text: `The run ${runId} of ${runtime.agent.name} waits for a place; it has not been begun.`
})
