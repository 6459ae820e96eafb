/**
 * A dispatched run that is stored. This process works on it, or waits until it is decided, or watches another one that works on it,
 * and takes it up when that has died.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Stream from "effect/Stream"
import type * as Cancellation from "../../../agent/Cancellation.ts"
import type { Runtime } from "../../../agent/Runtime.ts"
import type { RunUpdate } from "../../../agent/RunUpdate.ts"
import type { DecisionInput } from "../../../domain/Decision.ts"
import type { RequestId, RunId, SessionId } from "../../../domain/Id.ts"
import { type Interruption, isExpired } from "../../../domain/Interruption.ts"
import { type AgentNotFound, RunLetGo, type ToolUnavailable } from "../../../domain/RunError.ts"
import { type RunEvent, unwrap } from "../../../domain/RunEvent.ts"
import { interruptions, isEnded, type RunState } from "../../../domain/RunState.ts"
import { cancelRun } from "../../../durable/cancelRun.ts"
import { decideStored } from "../../../durable/decideStored.ts"
import { explain, type Explanation } from "../../../durable/explain.ts"
import { forkRun } from "../../../durable/forkRun.ts"
import { isCallbackAsked } from "../../../durable/internal/continueStored.ts"
import { type LoadedRun, loadRun } from "../../../durable/internal/loadRun.ts"
import { requestEnd } from "../../../durable/internal/requestEnd.ts"
import { runPromptStored } from "../../../durable/runPromptStored.ts"
import { sendMessage } from "../../../durable/sendMessage.ts"
import type { ForkInput, StoredStartInput } from "../../../durable/storedInput.ts"
import { toResult } from "../../../run/internal/result.ts"
import type { GivenOptions } from "../../../run/internal/startOptions.ts"
import { sizeOf } from "../../../run/internal/updateSize.ts"
import type { Prompt } from "../../../run/prompt.ts"
import type { RunResult } from "../../../run/RunResult.ts"
import { RunStore } from "../../../store/RunStore.ts"
import { RunNotFound } from "../../../store/RunStoreError.ts"
import { type RunHead } from "../../../store/RunStorePort.ts"
import { Scrubber } from "../../../tool/Scrubber.ts"
import type { HandleError, HandleUpdate, SendError, StoredFault } from "../../AgentHandle.ts"
import { ConductorClosed } from "../../DispatchError.ts"
import { Latest } from "../watch/readers.ts"
import { orRemoved, readStored } from "../watch/readStored.ts"
import { watch } from "../watch/StoreWatch.ts"
import {
  type AnyHandle,
  BaseHandle,
  type HandleOptions,
  newIds,
  notBegun,
  orStuck,
  readerRoom
} from "./BaseHandle.ts"
import { type Driven, elsewhere } from "./HandleState.ts"

type Store = RunStore["Service"]

/** A prompt; or a prompt to a fork of another run. */
export type Start = StoredStartInput | (ForkInput & { readonly newRunId: RunId })

/** How a stored run is dispatched, besides its input. */
export interface StoredOptions extends HandleOptions {
  readonly store: Store
  /** What becomes of the run when its scope closes. */
  readonly onClose?: "letGo" | "cancel" | undefined
}

/** What is made of an input when the run begins; with a conductor, what its budgets leave. */
export type PrepareStored = (live: AnyHandle, input: Start) => Effect.Effect<Start, HandleError>

type Failure = HandleError | StoredFault

/** A run that gets nowhere is left alone for longer and longer, and for no longer than this. */
const longestRestMs = 5 * 60_000

export class StoredHandle<Output> extends BaseHandle<Output, StoredFault> {
  declare readonly options: StoredOptions
  private input: Start | undefined
  private readonly prepare: PrepareStored | undefined
  private lastState: RunState | undefined
  private readonly open = new Map<RequestId, Interruption>()
  /** Events of the run that are known here. */
  revision = 0
  private unwatch: (() => void) | undefined
  /** When it was last gone on with because the store said that it needs somebody, and how far it was then. */
  private lastCall = { at: -1, revision: -1, times: 0 }
  private news = false
  /** The sub-agent for whose handle this one is there. */
  inside: { readonly told: (update: Extract<RunUpdate, { readonly _tag: "event" }>) => void } | undefined

  constructor(
    runtime: Runtime<Output>,
    ids: { readonly runId: RunId; readonly sessionId: SessionId },
    options: StoredOptions,
    start?: { readonly input: Start; readonly prepare?: PrepareStored | undefined }
  ) {
    super(runtime, ids, options)
    this.input = start?.input
    this.prepare = start?.prepare
  }

  get state() {
    return (): RunState | undefined => this.lastState
  }

  get interruptions() {
    return (): ReadonlyArray<Interruption> => (this.over ? [] : [...this.open.values()])
  }

  get openRequests(): Effect.Effect<ReadonlyArray<Interruption>, StoredFault> {
    return Effect.suspend(() =>
      this.begun
        ? Effect.map(loadRun(this.options.store, this.runId), (stored) =>
            isEnded(stored.state) ? [] : openIn(stored)
          )
        : Effect.succeed([])
    )
  }

  get events(): Stream.Stream<HandleUpdate, StoredFault> {
    const { runId } = this
    const { store } = this.options
    return readStored(() => ({
      runId,
      from: 0,
      buffer: new Latest({ most: readerRoom, counts: ({ _tag }) => _tag !== "event", sizeOf }),
      addReader: (reader) => this.addReader(reader),
      hasBegun: () => this.begun,
      read: (from, limit) => orRemoved(store.events(runId, { from, limit }), runId),
      head: orRemoved(store.head(runId), runId)
    }))
  }

  get decide() {
    return (given: DecisionInput) =>
      Effect.map(this.inStore(decideStored([this.runtime], given, this.runId)), (decision) => {
        this.open.delete(decision.requestId)
        this.cameIn()
        return decision
      })
  }

  override get cancel() {
    return (reason = "It was cancelled.") =>
      Effect.tap(super.cancel(reason), ({ status }) =>
        // One that failed may be resumed.
        status === "error" ? this.inStore(cancelRun(this.runId, reason)) : Effect.void
      )
  }

  get explain(): Effect.Effect<Explanation, StoredFault> {
    return Effect.suspend(() =>
      this.begun
        ? this.inStore(
            Effect.catchTag(explain(this.runId, { runtimes: [this.runtime] }), "OptionsInvalid", Effect.die)
          )
        : Effect.succeed(notBegun(this))
    )
  }

  deliver(prompt: Prompt, messageId: string | undefined): Effect.Effect<void, SendError | StoredFault> {
    const sending = sendMessage(this.runId, prompt, messageId === undefined ? {} : { messageId })
    return Effect.andThen(
      // Before that the store does not know it.
      this.hasBegun,
      Effect.map(this.inStore(sending), () => this.cameIn())
    )
  }

  protected forked(prompt: Prompt, given: GivenOptions): StoredHandle<Output> {
    const { runId, runtime } = this
    // A conductor sets aside what the fork may spend by its limits: with those that it inherits.
    const limits = { ...this.lastState?.startedWith?.limits, ...given.limits }
    const ids = newIds(runtime, {}, this.options)
    const input = { ...given, limits, runId, prompt, newRunId: ids.runId, sessionId: ids.sessionId }
    return new StoredHandle(runtime, ids, this.options, { input, prepare: this.prepare })
  }

  /** Takes over what is known of a run that is in the store. */
  adopt(stored: LoadedRun): Effect.Effect<void, StoredFault> {
    this.begun = true
    // What was before is nobody's to be told.
    this.revision = stored.head.revision
    return Effect.map(this.standing(stored), (stands) => {
      const { lastState } = this
      const isAsked = stands !== undefined && stands !== elsewhere && stands.status === "interrupted"
      if (
        stands === undefined ||
        (isAsked && lastState !== undefined && isCallbackAsked(this.runtime, lastState))
      )
        return this.begin()
      this.stands(stands)
    })
  }

  close(reason: string): Effect.Effect<void> {
    if (this.options.onClose === "cancel") return Effect.ignore(this.cancel(reason))
    return Effect.suspend(() => {
      if (!this.isDriven) this.leave()
      return Effect.ignore(this.done)
    })
  }

  protected drive(token: Cancellation.CancellationToken): Effect.Effect<Driven<Output>, Failure> {
    let isAsked = false
    return Effect.suspend(() => {
      this.news = false
      const { input, urge } = this
      if (!this.begun && input !== undefined) {
        // One that is only begun to be cancelled needs nothing.
        return this.prepare === undefined || token.reason() !== undefined
          ? this.work(token, input)
          : Effect.flatMap(this.prepare(this, input), (input) => this.work(token, input))
      }
      if (this.cancelReason !== undefined) {
        isAsked = true
        return this.end(this.cancelReason)
      }
      if (urge === "goOn") return Effect.andThen(this.catchUp, this.work(token, { runId: this.runId }))
      return Effect.flatMap(this.looked, (stands) =>
        stands === undefined ? this.work(token, { runId: this.runId }) : Effect.succeed(stands)
      )
    }).pipe(
      // It was cancelled while it was found out that another process has it: that one has to hear of it.
      Effect.flatMap((driven) =>
        driven === elsewhere && this.cancelReason !== undefined && !isAsked
          ? this.end(this.cancelReason)
          : Effect.succeed(driven)
      ),
      (driving) => orRemoved(driving, this.runId),
      // What comes up in a moment is tried again; before the run is there, whoever dispatches it does so.
      Effect.catchTag("RunStoreError", (error) => {
        if (!error.isRetryable || !this.begun) return Effect.fail(error)
        return Effect.logWarning(`The run ${this.runId} is tried again: ${error.message}`).pipe(
          Effect.andThen(this.pause(token)),
          Effect.andThen(Effect.suspend(() => this.drive(token)))
        )
      })
    )
  }

  protected parked(): void {
    if (this.options.owner.leaving.soon.reason() !== undefined) return this.leave()
    const isElsewhere = this.status.current() === "running"
    this.unwatch = watch(
      this.options.store,
      {
        runId: this.runId,
        runtime: this.runtime,
        isElsewhere,
        onReady: () => this.isReady(),
        onHead: (head) => this.look(head, isElsewhere),
        onRemoved: () => this.finish(Exit.fail(new RunNotFound({ runId: this.runId, removed: true })))
      },
      (effect) => this.launch(effect)
    )
  }

  protected unparked(): void {
    this.unwatch?.()
    this.unwatch = undefined
  }

  protected hasNews(): boolean {
    return this.news
  }

  protected ended(): void {
    this.unparked()
    this.input = undefined
    this.open.clear()
  }

  protected override publish(update: RunUpdate): void {
    if (update._tag === "event") {
      this.input = undefined
      this.revision = update.revision
      this.learn(update.event)
      this.inside?.told(update)
    }
    return super.publish(update)
  }

  /** Works on the run here. */
  private work(
    token: Cancellation.CancellationToken,
    input: Start | { readonly runId: RunId }
  ): Effect.Effect<Driven<Output>, Failure> {
    const options = {
      cancellation: token,
      leaving: this.options.owner.leaving,
      onUpdate: (update: RunUpdate) => this.publish(update)
    }
    const working =
      "newRunId" in input
        ? // Neither can be: it is the last revision of a session that was just made.
          Effect.catchTag(
            forkRun(this.runtime, input, options),
            ["RevisionNotFound", "SessionTaken"],
            Effect.die
          )
        : runPromptStored(this.runtime, input, options)
    return this.inStore(working).pipe(
      // Others may have got further before it was claimed here.
      Effect.tap(({ state }) => (state.revision > this.revision ? this.catchUp : Effect.void)),
      Effect.tap(({ state }) => Effect.sync(() => this.knows(state, interruptions(state)))),
      Effect.tap(orStuck),
      Effect.catchTag(["RunBusy", "RunConflict", "LeaseLost"], () =>
        Effect.succeed<Driven<Output>>(elsewhere)
      ),
      Effect.catchTag(["AgentNotFound", "ToolUnavailable"], (problem) => this.waitsFor(problem))
    )
  }

  /** What keeps the run from going on here is no end of it while there are other requests to decide. */
  private waitsFor(problem: AgentNotFound | ToolUnavailable): Effect.Effect<Driven<Output>, Failure> {
    if (!this.begun) return Effect.fail(problem)
    return Effect.flatMap(loadRun(this.options.store, this.runId), (stored) => {
      const { state } = stored
      const open = openIn(stored)
      if (open.length === 0) return Effect.fail(problem)
      this.knows(state, open)
      return Effect.map(toResult<Output>(this.runtime, state), (result): RunResult<Output> =>
        result.status === "interrupted" ? { ...result, interruptions: open } : result
      )
    })
  }

  /** Ends the run, whoever works on it. */
  private end(reason: string): Effect.Effect<Driven<Output>, Failure> {
    return this.inStore(Effect.flatten(requestEnd(this.runId, reason))).pipe(
      Effect.catchTag(["RunConflict", "LeaseLost"], () => Effect.void),
      Effect.andThen(this.looked),
      Effect.map((stands) => stands ?? elsewhere)
    )
  }

  private get looked(): Effect.Effect<Driven<Output> | undefined, StoredFault> {
    return Effect.suspend(() =>
      Effect.flatMap(loadRun(this.options.store, this.runId), (stored) => this.standing(stored))
    )
  }

  /** Tells what others have done up to a revision. */
  private missed(revision: number): Effect.Effect<void, StoredFault> {
    return Effect.suspend(() => {
      const from = this.revision
      if (revision <= from) return Effect.void
      const limit = revision - from
      return Effect.map(this.options.store.events(this.runId, { from, limit }), (events) =>
        this.publishAll(events, from)
      )
    })
  }

  /** How a run stands that nobody has to go on with; `undefined` of one that needs somebody. */
  private standing(stored: LoadedRun): Effect.Effect<Driven<Output> | undefined, StoredFault> {
    const { state } = stored
    return Effect.flatMap(this.missed(stored.head.revision), () =>
      Effect.flatMap(Clock.currentTimeMillis, (now): Effect.Effect<Driven<Output> | undefined> => {
        const open = interruptions(state)
        this.knows(state, openIn(stored))
        if (isEnded(state)) return toResult(this.runtime, state)
        if (stored.head.lease !== undefined) return Effect.succeed(elsewhere)
        const hasMail = stored.decisions.length > 0 || stored.messages.length > 0
        if (state.status === "running" || hasMail || open.some((request) => isExpired(request, now))) {
          return Effect.succeed(undefined)
        }
        return toResult(this.runtime, state)
      })
    )
  }

  /** What is known of the run, but not by being told. */
  private knows(state: RunState, open: ReadonlyArray<Interruption>): void {
    if (state.revision > this.revision) this.eachReader((reader) => reader.poke())
    this.lastState = state
    this.revision = state.revision
    this.open.clear()
    for (const request of open) this.open.set(request.requestId, request)
    this.changed()
  }

  /** Something has come in through this handle. */
  cameIn(): void {
    if (this.isDriven) return
    this.news = true
    this.resume()
  }

  /** The store says that the run needs somebody. */
  private isReady(): void {
    const at = this.options.clock.currentTimeMillisUnsafe()
    const { lastCall, revision } = this
    const times = lastCall.revision === revision ? lastCall.times + 1 : 0
    // It has got nowhere a moment ago.
    if (times > 0 && at - lastCall.at < Math.min(longestRestMs, 1000 * 2 ** lastCall.times)) return
    this.lastCall = { at, revision, times }
    this.resume()
  }

  /** Looks at what others have made of the run. */
  private look(head: RunHead, isElsewhere: boolean): void {
    const isOver = head.status !== "held" && head.status !== "running"
    if (isOver || (head.lease !== undefined) !== isElsewhere) return this.resume("look")
    if (head.revision === this.revision) return
    if (isElsewhere) this.launch(this.catchUp)
    else this.resume("look")
  }

  /** Reads and tells what another process has done to the run since. */
  private get catchUp(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const { revision } = this
      return this.options.store.events(this.runId, { from: revision }).pipe(
        Effect.map((events) => {
          // Meanwhile it may have become known otherwise.
          if (!this.over && this.revision === revision) this.publishAll(events, revision)
        }),
        // It is looked at again.
        Effect.ignore
      )
    })
  }

  /** Tells events that are in the journal, from a place on, as far as they were not told. */
  private publishAll(events: ReadonlyArray<RunEvent>, from: number): void {
    const { runId } = this
    for (const [index, event] of events.entries()) {
      const revision = from + index + 1
      if (revision > this.revision) this.publish({ _tag: "event", runId, revision, event })
    }
  }

  private learn(told: RunEvent): void {
    const { event } = unwrap(told)
    if (event._tag === "request.opened") this.open.set(event.request.requestId, event.request)
    else if (event._tag === "request.decided") this.open.delete(event.decision.requestId)
    else if (event._tag === "request.superseded") this.open.delete(event.requestId)
  }

  /** Stops working on it; it stays in the store. */
  private leave(): void {
    this.finish(Exit.fail(this.begun ? new RunLetGo({ runId: this.runId }) : new ConductorClosed()))
  }

  inStore<A, E>(effect: Effect.Effect<A, E, RunStore>): Effect.Effect<A, E> {
    return effect.pipe(
      Effect.provideService(RunStore, this.options.store),
      Effect.provideService(Scrubber, this.runtime.scrubber)
    )
  }

  /** Waits a moment, unless it is to end or to be let go of. */
  private pause(token: Cancellation.CancellationToken): Effect.Effect<void, RunLetGo> {
    const { soon } = this.options.owner.leaving
    const cancelled = Effect.callback<void>((resume) => {
      const unlink = [token, soon].map((token) => token.onCancel(() => resume(Effect.void)))
      return Effect.sync(() => unlink.forEach((unlink) => unlink()))
    })
    return Effect.andThen(
      Effect.raceFirst(Effect.sleep("1 second"), cancelled),
      Effect.suspend(() =>
        soon.reason() === undefined ? Effect.void : Effect.fail(new RunLetGo({ runId: this.runId }))
      )
    )
  }
}

/** A handle of a run that is not in the store yet. */
export const newStored = <Output>(
  runtime: Runtime<Output>,
  input: StoredStartInput,
  options: StoredOptions,
  prepare?: PrepareStored
): StoredHandle<Output> => {
  const ids = newIds(runtime, input, options)
  return new StoredHandle(runtime, ids, options, { input: { ...input, ...ids }, prepare })
}

/** The requests of a run without those that are decided and not yet acted on. */
const openIn = ({ decisions, state }: LoadedRun): ReadonlyArray<Interruption> => {
  const decided = new Set(decisions.map(({ requestId }) => requestId))
  return interruptions(state).filter(({ requestId }) => !decided.has(requestId))
}
