/**
 * The handle of a run without a store. While the run is held, it is a state in this object; decisions and messages reach it through its
 * mailbox.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type * as Stream from "effect/Stream"
import type * as Cancellation from "../../../agent/Cancellation.ts"
import type { Runtime } from "../../../agent/Runtime.ts"
import type { RunUpdate } from "../../../agent/RunUpdate.ts"
import { nextDeadline } from "../../../domain/decide.ts"
import type { Decision, DecisionInput } from "../../../domain/Decision.ts"
import { evolve } from "../../../domain/evolve.ts"
import * as History from "../../../domain/History.ts"
import type { RequestId, RunId, SessionId, Timestamp } from "../../../domain/Id.ts"
import { defined } from "../../../domain/internal/defined.ts"
import { isAnyToRun } from "../../../domain/internal/released.ts"
import type { Interruption } from "../../../domain/Interruption.ts"
import { next } from "../../../domain/next.ts"
import type { Rejection } from "../../../domain/Rejection.ts"
import type { ReopenOptions } from "../../../domain/reopenInState.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import { interruptions, isEnded, type RunState } from "../../../domain/RunState.ts"
import { type Explanation, explainState } from "../../../durable/explain.ts"
import { decodeUnstoredPrompt } from "../../../run/internal/decodePrompt.ts"
import { redactEvent } from "../../../run/internal/redact.ts"
import { type CallerOptions, inSession } from "../../../run/internal/startOptions.ts"
import { sizeOf } from "../../../run/internal/updateSize.ts"
import type { Prompt } from "../../../run/Mail.ts"
import * as Mailbox from "../../../run/Mailbox.ts"
import type { ContinueInput, StartInput } from "../../../run/runInput.ts"
import { runPrompt } from "../../../run/runPrompt.ts"
import type { RunResult } from "../../../run/RunResult.ts"
import { decodeMessage, digestOf, idConflict } from "../../../store/internal/messages.ts"
import type { AgentHandle, HandleError, HandleUpdate, SendError } from "../../AgentHandle.ts"
import { Latest, Reader, readAll, reading } from "../events/Reader.ts"
import {
  type AnyHandle,
  BaseHandle,
  type HandleOptions,
  newIds,
  explainQueued,
  failWhenStuck,
  readerRoom
} from "./BaseHandle.ts"

/** The input of a new run, or a state to resume. */
export type Input = StartInput | ContinueInput

/** Prepares the input when the run starts: a conductor limits it to its budgets. */
export type Prepare = (live: AnyHandle, input: Input) => Effect.Effect<Input, HandleError>

export class UnstoredHandle<Output> extends BaseHandle<Output, never> {
  private input: Input | undefined
  private readonly prepare: Prepare | undefined
  /** Exists while the run is driven, while mail is delivered to it, and while it contains mail. */
  private mailbox: Mailbox.Mailbox | undefined
  /** The number of deliveries to the mailbox in progress. */
  private using = 0
  /** The state of the last hold, or the final one. */
  private lastState: RunState | undefined
  /** The requests whose decision is in the mailbox, and not in the state yet. */
  private decided: Set<RequestId> | undefined
  /** The latest events, for readers that start late. */
  private readonly kept: Array<RunUpdate> = []
  /** The number of events that are no longer kept. */
  private dropped = 0
  private expiring: Fiber.Fiber<void> | undefined
  /** The digests of the messages with an id, by id. Allocated with the first one. */
  private sent: Map<string, string> | undefined

  constructor(runtime: Runtime<Output>, input: Input, options: HandleOptions, prepare?: Prepare) {
    super(runtime, idsOf(runtime, input, options), options)
    this.input = "state" in input ? input : { ...input, runId: this.runId, sessionId: this.sessionId }
    this.prepare = prepare
  }

  get interruptions() {
    return (): ReadonlyArray<Interruption> => {
      const state = this.over ? undefined : this.state()
      if (state === undefined) return []
      const open = interruptions(state)
      return this.decided === undefined
        ? open
        : open.filter(({ requestId }) => this.decided?.has(requestId) !== true)
    }
  }

  get openRequests(): Effect.Effect<ReadonlyArray<Interruption>> {
    return Effect.sync(this.interruptions)
  }

  get events(): Stream.Stream<HandleUpdate> {
    return reading(
      () => {
        const latest = { most: readerRoom, first: this.kept, missed: this.dropped, sizeOf }
        const reader = new Reader(new Latest<RunUpdate>(latest))
        return [reader, this.addReader(reader)]
      },
      (reader) => readAll(reader, (updates) => [{ _tag: "skipped", runId: this.runId, updates }])
    )
  }

  get decide() {
    return (decision: DecisionInput): Effect.Effect<Decision, Rejection> =>
      Effect.tap(
        this.mailed((mailbox) => mailbox.decide(decision)),
        ({ requestId }) => Effect.sync(() => (this.decided ??= new Set()).add(requestId))
      )
  }

  get reopen() {
    return (requestId: RequestId, options: ReopenOptions) =>
      this.mailed((mailbox) => mailbox.reopen(requestId, options))
  }

  get explain(): Effect.Effect<Explanation> {
    return Effect.map(Clock.currentTimeMillis, (now) => {
      const state = this.state()
      return state === undefined
        ? explainQueued(this)
        : explainState(state, [], now, { isDriven: this.currentStatus === "running" })
    })
  }

  get state() {
    return (): RunState | undefined => this.mailbox?.settled() ?? this.lastState
  }

  /**
   * The state with which another program can resume the run, if the run waits for a decision or has not acted on one yet. If the run is
   * also running other calls, those that may not be repeated are in doubt when the run is resumed.
   */
  waiting(): RunState | undefined {
    const state = this.state()
    if (state === undefined || isEnded(state)) return undefined
    const before = this.mailbox?.state() ?? state
    return next(before)._tag === "Hold" || isAnyToRun(state) ? state : undefined
  }

  record(make: (at: Timestamp) => RunEvent): Effect.Effect<void> {
    return Effect.map(Clock.currentTimeMillis, (at) => {
      const { lastState, live } = this
      if (live?.record !== undefined) return live.record(make)
      if (lastState === undefined || isEnded(lastState)) return
      const event = redactEvent(this.runtime.scrubber, make(at))
      this.lastState = evolve(lastState, event)
      this.publish({ _tag: "event", runId: this.runId, revision: this.lastState.revision, event })
    })
  }

  deliver(prompt: Prompt, messageId?: string): Effect.Effect<void, SendError> {
    const sending = this.mailed((mailbox) => mailbox.send(prompt))
    return messageId === undefined ? sending : this.sendOnce(prompt, messageId, sending)
  }

  /** Sends a message, unless one with its id and content was sent. */
  private sendOnce(prompt: Prompt, messageId: string, sending: Effect.Effect<void, SendError>) {
    return Effect.gen({ self: this }, function* () {
      const content = yield* decodeUnstoredPrompt(prompt)
      const message = yield* Effect.fromResult(decodeMessage({ messageId, content }, 0, this.runId))
      const digest = (this.sent ??= new Map<string, string>()).get(messageId)
      const wrong = idConflict(defined({ digest }), message)
      if (wrong !== undefined) return yield* wrong
      if (digest !== undefined) return
      this.sent.set(messageId, digestOf(message))
      yield* Effect.onError(sending, () => Effect.sync(() => this.sent?.delete(messageId)))
    })
  }

  override fork(prompt: Prompt, given: CallerOptions): Effect.Effect<AgentHandle<Output>, SendError> {
    return Effect.suspend(() =>
      this.state() === undefined ? Effect.as(this.deliver(prompt), this) : super.fork(prompt, given)
    )
  }

  protected forked(prompt: Prompt, given: CallerOptions): UnstoredHandle<Output> {
    const sessionId = this.runtime.ids.sessionId(this.options.clock.currentTimeMillisUnsafe())
    const state = beforeOpenTurn(this.state()!, sessionId)
    return new UnstoredHandle(this.runtime, { ...given, state, prompt }, this.options, this.prepare)
  }

  close(reason: string): Effect.Effect<void> {
    return Effect.ignore(this.cancel(reason))
  }

  protected drive(token: Cancellation.CancellationToken): Effect.Effect<RunResult<Output>, HandleError> {
    return Effect.suspend(() => {
      const { input, lastState } = this
      const mailbox = this.openMailbox()
      const onUpdate = (update: RunUpdate) => this.publish(update)
      const go = (input: Input) =>
        runPrompt(withRunId(this.runtime, input, this.runId), input, {
          cancellation: token,
          mailbox,
          onUpdate
        }).pipe(
          Effect.flatMap((result) => {
            this.keep(result.state)
            return failWhenStuck(result)
          })
        )
      if (lastState !== undefined) return go({ state: lastState })
      if (input === undefined) return Effect.die(new Error("The run has already started."))
      // A run that starts only to be cancelled needs no budget.
      return this.prepare === undefined || token.reason() !== undefined
        ? go(input)
        : Effect.flatMap(this.prepare(this, input), go)
    })
  }

  protected parked(): void {
    this.closeMailbox()
    this.decided = undefined
    const state = this.state()
    const next = state === undefined ? undefined : nextDeadline(state)
    if (next === undefined) return
    this.expiring = this.launch(
      Effect.flatMap(Clock.currentTimeMillis, (now) => Effect.sleep(Math.max(0, next - now)))
    )
    this.expiring.addObserver((exit) => {
      if (exit._tag === "Success") this.resume()
    })
  }

  protected unparked(): void {
    this.expiring?.interruptUnsafe()
    this.expiring = undefined
  }

  protected override hasNews(): boolean {
    return this.mailbox?.isEmpty() === false
  }

  protected ended(): void {
    this.unparked()
    // If the drive failed, the mailbox has a later state. Resuming from that one repeats no call.
    this.lastState = this.mailbox?.settled() ?? this.lastState
    this.closeMailbox()
    this.input = undefined
  }

  override publish(update: RunUpdate): void {
    if (!this.begun) this.input = undefined
    const most = this.options.keepEvents ?? 64
    if (update._tag === "event") {
      this.kept.push(update)
      if (this.kept.length > most) {
        this.kept.shift()
        this.dropped += 1
      }
    }
    return super.publish(update)
  }

  /** Keeps the state of a run whose drive has ended. The mailbox then refers to this state, so that the drive can be freed. */
  private keep(state: RunState): void {
    this.lastState = state
    this.sessionId = state.sessionId
    this.mailbox?.attach(this.runtime, () => this.lastState ?? state)
  }

  private mailed<A, E>(use: (mailbox: Mailbox.Mailbox) => Effect.Effect<A, E>): Effect.Effect<A, E> {
    return Effect.suspend(() => {
      this.using += 1
      return Effect.ensuring(
        use(this.openMailbox()),
        Effect.sync(() => {
          this.using -= 1
          if (!this.isDriven) this.closeMailbox()
        })
      )
    })
  }

  private openMailbox(): Mailbox.Mailbox {
    if (this.mailbox !== undefined) return this.mailbox
    const mailbox = Mailbox.make()
    const { lastState } = this
    if (lastState !== undefined) mailbox.attach(this.runtime, () => this.lastState ?? lastState)
    mailbox.onMail(() => this.resume())
    this.mailbox = mailbox
    return mailbox
  }

  /** Drops the mailbox if it is empty and not in use, so that a waiting run takes less memory. */
  private closeMailbox(): void {
    if (this.using === 0 && !this.hasNews()) this.mailbox = undefined
  }
}

const idsOf = (runtime: Runtime, input: Input, options: HandleOptions) => {
  if (!("state" in input)) return newIds(runtime, inSession(runtime, input), options)
  const { runId, sessionId } = input.state
  const isNew = isEnded(input.state) && input.prompt !== undefined
  return isNew ? newIds(runtime, { sessionId }, options) : { runId, sessionId }
}

/** Makes the runtime give a new run the id that its handle already has, if the run follows one that has ended. */
const withRunId = <Output>(runtime: Runtime<Output>, input: Input, runId: RunId): Runtime<Output> =>
  "state" in input && input.state.runId !== runId
    ? (Object.create(runtime, { ids: { value: { ...runtime.ids, runId: () => runId } } }) as Runtime<Output>)
    : runtime

/** The state of a run before its open turn, as if it were a completed run of another session. */
const beforeOpenTurn = (state: RunState, sessionId: SessionId): RunState => {
  const { background: _, failure: __, stop: ___, ...rest } = state
  const messages = History.toArray(state.history)
  return {
    ...rest,
    sessionId,
    status: "completed",
    history: History.fromArray(state.calls.length === 0 ? messages : messages.slice(0, -1)),
    calls: [],
    requests: [],
    queued: []
  }
}
