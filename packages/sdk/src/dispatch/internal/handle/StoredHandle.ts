/**
 * The handle of a stored run. This process drives the run, waits until it is decided, or follows another process that drives it, and drives
 * it if that process dies.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Stream from "effect/Stream"
import type * as Cancellation from "../../../agent/Cancellation.ts"
import type { RunUpdate } from "../../../agent/RunUpdate.ts"
import { nextDeadline } from "../../../domain/decide.ts"
import type { DecisionInput } from "../../../domain/Decision.ts"
import { isWithin, type RequestId, type RunId, type Timestamp } from "../../../domain/Id.ts"
import type { Interruption } from "../../../domain/Interruption.ts"
import { RequestNotFound } from "../../../domain/Rejection.ts"
import type { ReopenOptions } from "../../../domain/reopenInState.ts"
import { RunSuspended } from "../../../domain/RunError.ts"
import { type RunEvent, unwrap } from "../../../domain/RunEvent.ts"
import { isEnded, isQueued, type RunState } from "../../../domain/RunState.ts"
import { cancelRun } from "../../../durable/cancelRun.ts"
import { decideStored } from "../../../durable/decideStored.ts"
import { explain, type Explanation } from "../../../durable/explain.ts"
import { appendOnce } from "../../../durable/internal/appendOnce.ts"
import { isCallbackAsked } from "../../../durable/internal/continueStored.ts"
import { type LoadedRun, loadRun } from "../../../durable/internal/loadRun.ts"
import { reopenRequest } from "../../../durable/reopenRequest.ts"
import { sendMessage } from "../../../durable/sendMessage.ts"
import { redactEvent } from "../../../run/internal/redact.ts"
import type { CallerOptions } from "../../../run/internal/startOptions.ts"
import { sizeOf } from "../../../run/internal/updateSize.ts"
import type { Prompt } from "../../../run/Mail.ts"
import { RunStore } from "../../../store/RunStore.ts"
import { RunNotFound, type RunStoreError } from "../../../store/RunStoreError.ts"
import type { RunHead } from "../../../store/RunStorePort.ts"
import { Scrubber } from "../../../tool/Scrubber.ts"
import type { HandleUpdate, SendError, StoredFault } from "../../AgentHandle.ts"
import { ConductorClosed } from "../../DispatchError.ts"
import { Latest } from "../events/Reader.ts"
import { failWhenRemoved, readStored } from "../events/readEvents.ts"
import { type Piece, piecesOf } from "../events/signals.ts"
import { watch } from "../watch/StoreWatch.ts"
import { explainQueued, newIds, readerRoom, type RecordError } from "./BaseHandle.ts"
import { driveStored, openRequestsIn, restingStatus, type StoredFailure } from "./driveStored.ts"
import { type Driven, elsewhere } from "./HandleState.ts"
import { QueueHandle } from "./QueueHandle.ts"
import { ReadyBackoff } from "./ReadyBackoff.ts"

export class StoredHandle<Output> extends QueueHandle<Output> {
  private readonly open = new Map<RequestId, Interruption>()
  /** Called when a drive is retried because the store failed. Allocated with the first cancellation. */
  private retryListeners: Set<(error: RunStoreError) => void> | undefined
  private readonly backoff = new ReadyBackoff()
  /** The handle of the sub-agent's run for which this one was made, if any. */
  subAgent: { readonly follow: (update: Extract<RunUpdate, { readonly _tag: "event" }>) => void } | undefined

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
            isEnded(stored.state) ? [] : openRequestsIn(stored)
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
      buffer: new Latest<Piece>({
        most: readerRoom,
        counts: ({ _tag }) => _tag !== "event" && _tag !== "mark",
        sizeOf: (piece) => (piece._tag === "mark" ? 0 : sizeOf(piece))
      }),
      addReader: (reader) => this.addReader(reader),
      hasBegun: () => this.begun,
      read: (from, limit) => failWhenRemoved(store.events(runId, { from, limit }), runId),
      head: failWhenRemoved(store.head(runId), runId)
    }))
  }

  get decide() {
    return (given: DecisionInput) =>
      Effect.map(this.inStore(decideStored([this.runtime], given, this.runId)), (decision) => {
        this.open.delete(decision.requestId)
        this.resume()
        return decision
      })
  }

  get reopen() {
    return (requestId: RequestId, options: ReopenOptions) =>
      Effect.suspend(() =>
        isWithin(String(requestId), this.runId)
          ? Effect.map(this.inStore(reopenRequest(requestId, options)), () => this.resume())
          : Effect.fail(new RequestNotFound({ requestId }))
      )
  }

  override get cancel() {
    return (reason = "It was cancelled.") =>
      Effect.raceFirst(
        this.failingStore,
        Effect.tap(super.cancel(reason), ({ status }) =>
          // A failed run may be resumed, so the cancellation is stored.
          status === "error" ? this.inStore(cancelRun(this.runId, reason)) : Effect.void
        )
      )
  }

  /** Fails with the next failure of the store with which a drive is retried. */
  private get failingStore(): Effect.Effect<never, RunStoreError> {
    return Effect.callback((resume) => {
      const listener = (error: RunStoreError) => resume(Effect.fail(error))
      const listeners = (this.retryListeners ??= new Set())
      listeners.add(listener)
      return Effect.sync(() => listeners.delete(listener))
    })
  }

  onRetry(error: RunStoreError): void {
    this.retryListeners?.forEach((listener) => listener(error))
  }

  get explain(): Effect.Effect<Explanation, StoredFault> {
    return Effect.suspend(() =>
      this.begun ? this.explained(this.runId) : Effect.succeed(explainQueued(this))
    )
  }

  record(make: (at: Timestamp) => RunEvent): Effect.Effect<void, RecordError | StoredFault> {
    return Effect.suspend(() => {
      const { live, runId, runtime } = this
      if (live?.record !== undefined) return Effect.sync(() => live.record?.(make))
      const events = ({ state }: { readonly state: RunState }, at: Timestamp) =>
        isEnded(state) ? [] : [redactEvent(runtime.scrubber, make(at))]
      // Its event is published here, so that it is not published later than what follows.
      return Effect.andThen(this.inStore(appendOnce(runId, events)), this.missed())
    })
  }

  deliver(prompt: Prompt, messageId: string | undefined): Effect.Effect<void, SendError | StoredFault> {
    // Before its start, the run is not in the store.
    return Effect.andThen(this.hasBegun, this.deliverTo(this.runId, prompt, messageId))
  }

  protected forked(prompt: Prompt, given: CallerOptions): StoredHandle<Output> {
    const { runId, runtime } = this
    // A conductor reserves budgets by the limits of the input, so these include the inherited ones.
    const limits = { ...this.lastState?.startedWith?.limits, ...given.limits }
    const ids = newIds(runtime, {}, this.options)
    const input = { ...given, limits, runId, prompt, newRunId: ids.runId, sessionId: ids.sessionId }
    return new StoredHandle(runtime, ids, this.options, { input, prepare: this.prepare })
  }

  /** Takes over a run that was loaded from the store, and drives it if it needs a worker. */
  adopt(stored: LoadedRun): Effect.Effect<void, StoredFault> {
    this.begun = true
    // Earlier events are not published.
    this.revision = stored.head.revision
    return Effect.map(restingStatus(this, stored), (stands) => {
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
    return Effect.flatMap(this.stored, () => {
      if (!this.isDriven) this.leave()
      return Effect.ignore(this.done)
    })
  }

  protected drive(token: Cancellation.CancellationToken): Effect.Effect<Driven<Output>, StoredFailure> {
    return Effect.flatMap(this.stored, () => {
      const { input, prepare } = this
      this.unparked()
      if (this.begun || input === undefined) return driveStored(this, token)
      // A run that starts only to be cancelled needs no budget.
      const isPrepared = prepare === undefined || token.reason() !== undefined
      return driveStored(this, token, isPrepared ? Effect.succeed(input) : prepare(this, input))
    })
  }

  protected parked(): void {
    if (this.options.group.suspension.soon.reason() !== undefined) return this.leave()
    const isElsewhere = this.status.current() === "running"
    this.unwatch = watch(
      this.options.store,
      {
        runId: this.runId,
        runtime: this.runtime,
        isElsewhere,
        dueAt: this.lastState === undefined ? undefined : nextDeadline(this.lastState),
        onReady: () => {
          if (
            !this.isFollowed &&
            this.backoff.allows(this.revision, this.options.clock.currentTimeMillisUnsafe())
          )
            this.resume()
        },
        onHead: (head) => this.look(head, isElsewhere),
        onSignal: (signal) => {
          for (const piece of piecesOf(this.runId, signal)) this.eachReader((reader) => reader.push(piece))
        },
        onRemoved: () => this.finish(Exit.fail(new RunNotFound({ runId: this.runId, removed: true })))
      },
      (effect) => this.launch(effect)
    )
  }

  protected ended(): void {
    this.unparked()
    this.input = undefined
    this.open.clear()
  }

  override publish(update: RunUpdate): void {
    if (update._tag === "event") {
      this.input = undefined
      this.revision = update.revision
      this.learn(update.event)
      this.subAgent?.follow(update)
    }
    return super.publish(update)
  }

  missed(revision?: number): Effect.Effect<void, StoredFault> {
    return Effect.suspend(() => {
      const { runId } = this
      const from = this.revision
      if (revision !== undefined && revision <= from) return Effect.void
      const limit = revision === undefined ? {} : { limit: revision - from }
      return Effect.map(this.options.store.events(runId, { from, ...limit }), (events) => {
        for (const [index, event] of events.entries()) {
          const revision = from + index + 1
          // The event may have been published during the read.
          if (!this.over && revision > this.revision) this.publish({ _tag: "event", runId, revision, event })
        }
      })
    })
  }

  knows(state: RunState, open: ReadonlyArray<Interruption>): void {
    if (state.revision > this.revision) this.eachReader((reader) => reader.poke())
    this.lastState = state
    this.awaitsSlot = isQueued(state)
    this.revision = state.revision
    this.open.clear()
    for (const request of open) this.open.set(request.requestId, request)
    this.changed()
  }

  /** Compares the run's head with this handle, and reads or resumes the run if another process has changed it. */
  private look(head: RunHead, isElsewhere: boolean): void {
    const isOver = head.status !== "held" && head.status !== "running"
    if (isOver || (head.lease !== undefined) !== isElsewhere) return this.resume("look")
    if (head.revision === this.revision) return
    if (isElsewhere) this.launch(Effect.ignore(this.missed()))
    else this.resume("look")
  }

  private learn(wrapped: RunEvent): void {
    const { event } = unwrap(wrapped)
    if (wrapped._tag === "run.resumed") this.awaitsSlot = false
    if (event._tag === "request.opened") this.open.set(event.request.requestId, event.request)
    else if (event._tag === "request.decided") this.open.delete(event.decision.requestId)
    else if (event._tag === "request.superseded") this.open.delete(event.requestId)
  }

  /** Stops following the run, which stays in the store. */
  private leave(): void {
    this.finish(Exit.fail(this.begun ? new RunSuspended({ runId: this.runId }) : new ConductorClosed()))
  }

  /** Explains the run, or one of its sub-agents. */
  explained(runId: RunId): Effect.Effect<Explanation, StoredFault> {
    const explaining = explain(runId, { runtimes: [this.runtime] })
    return this.inStore(Effect.catchTag(explaining, "OptionsInvalid", Effect.die))
  }

  /** Queues a message for the run, or for one of its sub-agents. */
  deliverTo(
    runId: RunId,
    prompt: Prompt,
    messageId: string | undefined
  ): Effect.Effect<void, SendError | StoredFault> {
    const sending = sendMessage(runId, prompt, messageId === undefined ? {} : { messageId })
    return Effect.map(this.inStore(sending), () => {
      // The conductor of a queued run takes the message when it starts the run.
      if (!this.isFollowed) this.resume()
    })
  }

  inStore<A, E>(effect: Effect.Effect<A, E, RunStore>): Effect.Effect<A, E> {
    return effect.pipe(
      Effect.provideService(RunStore, this.options.store),
      Effect.provideService(Scrubber, this.runtime.scrubber)
    )
  }
}
