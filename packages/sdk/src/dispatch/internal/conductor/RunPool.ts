/**
 * The runs of a conductor: admits them, counts them, publishes their updates, and closes them together.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { millisOr } from "../../../agent/internal/soundOptions.ts"
import type { Runtime } from "../../../agent/Runtime.ts"
import type { RunUpdate } from "../../../agent/RunUpdate.ts"
import type { Decision, DecisionInput } from "../../../domain/Decision.ts"
import { line, sentence } from "../../../domain/Display.ts"
import type { RequestId, RunId } from "../../../domain/Id.ts"
import type { OptionsInvalid } from "../../../domain/OptionsInvalid.ts"
import { type Rejection, RequestNotFound } from "../../../domain/Rejection.ts"
import type { ReopenError, ReopenOptions } from "../../../domain/reopenInState.ts"
import type { AgentNotFound } from "../../../domain/RunError.ts"
import { unwrap } from "../../../domain/RunEvent.ts"
import { isEnded, type RunState } from "../../../domain/RunState.ts"
import { loadRun } from "../../../durable/internal/loadRun.ts"
import type { StoredStartInput } from "../../../durable/storedInput.ts"
import { sizeOf } from "../../../run/internal/updateSize.ts"
import type { RunStoreError } from "../../../store/RunStoreError.ts"
import type { AgentHandle, HandleError, Observed, StoredFault } from "../../AgentHandle.ts"
import type { ConductorUpdate, Drained, InboxEntry } from "../../ConductorUpdate.ts"
import { type ConductorBudgetExceeded, ConductorClosed, type ConductorFull } from "../../DispatchError.ts"
import type { ConductorOptions } from "../../dispatchOptions.ts"
import { Latest, readAll, Reader, reading } from "../events/Reader.ts"
import type { AnyHandle, ConductorLink, BaseHandle, HandleOptions } from "../handle/BaseHandle.ts"
import type { StoredOptions } from "../handle/QueueHandle.ts"
import { follow, liveOf, newStored, runtimeOf } from "../handle/storedHandles.ts"
import { type Input, UnstoredHandle } from "../handle/UnstoredHandle.ts"
import { closeAll, makeGroup } from "../HandleGroup.ts"
import { runsOf } from "./findRuns.ts"
import { Gate } from "./Gate.ts"
import { type AllottedInput, Ledger } from "./Ledger.ts"

/** The options that the caller gives; the conductor adds the others. */
type CallerOptions = Omit<HandleOptions, "group" | "conductor">

type StoredCallerOptions = Omit<StoredOptions, "group" | "conductor">

/** The number of updates that are buffered for a reader. */
const readerRoom = 1024

export class RunPool implements ConductorLink {
  readonly name: string
  readonly ledger: Ledger
  readonly gate: Gate
  private readonly options: ConductorOptions
  private readonly group = makeGroup()
  private readonly lives = new Set<AnyHandle>()
  private readonly byId = new Map<string, AnyHandle>()
  private readonly readers = new Set<Reader<ConductorUpdate>>()
  private readonly inboxes = new Set<Reader<void>>()
  private isClosed = false
  private drained: ReadonlyArray<Drained> | undefined
  /** Closes the pool once. All callers wait for the same close. */
  readonly drain = Effect.runSync(Effect.cached(Effect.uninterruptible(Effect.suspend(() => this.close()))))

  constructor(options: ConductorOptions) {
    this.options = options
    this.name = options.name ?? "default"
    this.ledger = new Ledger(options.limits ?? {})
    this.gate = new Gate(options)
  }

  dispatch<Output>(
    runtime: Runtime<Output>,
    input: Input,
    given: CallerOptions
  ): Effect.Effect<AgentHandle<Output>, HandleError | ConductorFull> {
    return this.letIn(() => new UnstoredHandle(runtime, input, this.withGroup(given), this.prepare))
  }

  dispatchStored<Output>(
    runtime: Runtime<Output>,
    input: StoredStartInput,
    given: StoredCallerOptions
  ): Effect.Effect<AgentHandle<Output, StoredFault>, HandleError | StoredFault | ConductorFull> {
    return this.letIn(() => newStored(runtime, input, this.withGroup(given), this.prepare))
  }

  attach(
    runtimes: ReadonlyArray<Runtime>,
    runId: RunId,
    given: StoredCallerOptions
  ): Effect.Effect<
    AgentHandle<unknown, StoredFault>,
    AgentNotFound | ConductorBudgetExceeded | ConductorClosed | StoredFault
  > {
    return Effect.gen({ self: this }, function* () {
      const stored = yield* loadRun(given.store, runId)
      const runtime = yield* runtimeOf(runtimes, stored)
      // From here to the new handle in one step, so that each run has one handle and is counted once.
      const known = this.byId.get(runId)
      if (known !== undefined) return known
      const refused = isEnded(stored.state) ? this.closed : this.refuse()
      if (refused !== undefined) return yield* refused
      const name = given.name ?? stored.state.conductor?.as
      const options = this.withGroup({ ...given, name })
      const live = yield* follow(liveOf(runtime, runId, stored, options, this.prepare), stored)
      this.ledger.follow(live, live.state())
      return live
    })
  }

  /** Attaches to the stored runs that a conductor of this name has dispatched, as far as the budget of runs goes. */
  adopt(
    runtimes: ReadonlyArray<Runtime>,
    given: StoredCallerOptions
  ): Effect.Effect<ReadonlyArray<AgentHandle<unknown, StoredFault>>, ConductorClosed | RunStoreError> {
    return Effect.gen({ self: this }, function* () {
      const adopted: Array<AgentHandle<unknown, StoredFault>> = []
      const left: Array<RunId> = []
      let refused: ConductorBudgetExceeded | undefined
      for (const runId of yield* runsOf(given.store, this.name, runtimes)) {
        const live =
          refused !== undefined
            ? this.byId.get(runId)
            : yield* this.attach(runtimes, runId, given).pipe(
                // It was removed since.
                Effect.catchTag(["AgentNotFound", "RunNotFound"], () => Effect.succeed("removed" as const)),
                Effect.catchTag("ConductorBudgetExceeded", (error) => {
                  refused = error
                  return Effect.succeed(undefined)
                })
              )
        if (live === undefined) left.push(runId)
        else if (live !== "removed") adopted.push(live)
      }
      if (refused !== undefined) {
        yield* Effect.logWarning(
          sentence`The conductor ${this.name} left ${left.length} of its runs as they are, beginning with ${left[0]!}: ${line(refused.message)} Another conductor of this name can adopt them.`,
          { left }
        )
      }
      return adopted
    })
  }

  get handles(): ReadonlyArray<AnyHandle> {
    return [...this.lives]
  }

  get events(): Stream.Stream<ConductorUpdate> {
    return reading(
      () => this.read(this.readers, new Latest<ConductorUpdate>({ most: readerRoom, sizeOf: sizeOfUpdate })),
      (reader) => readAll(reader, (updates): ReadonlyArray<ConductorUpdate> => [{ _tag: "skipped", updates }])
    )
  }

  get inbox(): Observed<ReadonlyArray<InboxEntry>> {
    const current = () => this.pending()
    return {
      current,
      changes: reading(
        () => this.read(this.inboxes, new Latest<void>({ most: 1, first: [undefined], counts: () => false })),
        (reader) => readAll(reader, () => [])
      ).pipe(
        Stream.map(current),
        Stream.changesWith((before, now) => idsOf(before) === idsOf(now))
      )
    }
  }

  decide(decision: DecisionInput): Effect.Effect<Decision, Rejection | StoredFault> {
    return Effect.suspend(() =>
      Effect.flatMap(this.handleOf(String(decision?.requestId)), (live) => live.decide(decision))
    )
  }

  reopen(
    requestId: RequestId,
    options: ReopenOptions
  ): Effect.Effect<void, ReopenError | OptionsInvalid | StoredFault> {
    return Effect.suspend(() =>
      Effect.flatMap(this.handleOf(String(requestId)), (live) => live.reopen(requestId, options))
    )
  }

  /** The handle of the run that has a request. */
  private handleOf(requestId: string): Effect.Effect<AnyHandle, RequestNotFound> {
    // A request's id begins with that of its run, whose own begins with that of the root.
    for (let end = requestId.lastIndexOf("."); end > 0; end = requestId.lastIndexOf(".", end - 1)) {
      const live = this.byId.get(requestId.slice(0, end))
      if (live !== undefined) return Effect.succeed(live)
    }
    return Effect.fail(new RequestNotFound({ requestId }))
  }

  cancel(name: string, reason = `"${name}" was cancelled.`): Effect.Effect<number> {
    return Effect.suspend(() => {
      const meant = this.handles.filter(
        (live) => live.name === name || live.name?.startsWith(`${name}/`) === true
      )
      return Effect.as(
        Effect.forEach(meant, (live) => Effect.exit(live.cancel(reason)), {
          concurrency: "unbounded",
          discard: true
        }),
        meant.length
      )
    })
  }

  onMade(live: AnyHandle): void {
    this.lives.add(live)
    this.byId.set(live.runId, live)
  }

  onUpdate({ name, runId }: AnyHandle, update: RunUpdate): void {
    for (const reader of this.readers) reader.push({ _tag: "update", runId, name, update })
    if (this.inboxes.size === 0 || update._tag !== "event") return
    if (unwrap(update.event).event._tag.startsWith("request.")) this.onChange()
  }

  onChange(): void {
    for (const inbox of this.inboxes) inbox.push(undefined)
  }

  onOver(live: AnyHandle): void {
    this.lives.delete(live)
    if (this.byId.get(live.runId) === live) this.byId.delete(live.runId)
    this.ledger.book(live, live.state())
    if (!live.begun || live.awaitsSlot) this.ledger.discount()
    this.onChange()
  }

  refuse(): ConductorBudgetExceeded | ConductorClosed | undefined {
    return this.closed ?? this.ledger.refuse()
  }

  private get closed(): ConductorClosed | undefined {
    return this.isClosed ? new ConductorClosed() : undefined
  }

  private withGroup<Options extends CallerOptions>(
    options: Options
  ): Options & Pick<HandleOptions, "group" | "conductor" | "restart"> {
    return {
      ...options,
      restart: options.restart ?? this.options.restart,
      group: this.group,
      conductor: this
    }
  }

  /** Admits a run, makes its handle and starts it. */
  private letIn<Output, E extends StoredFault>(
    make: () => BaseHandle<Output, E>
  ): Effect.Effect<BaseHandle<Output, E>, HandleError | ConductorFull | E> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(restore(this.gate.admitted), (hasSlot) => {
        const refused = this.refuse()
        if (refused !== undefined) {
          if (hasSlot) this.gate.leave()
          return Effect.fail(refused)
        }
        const live = make()
        live.begin(hasSlot)
        live.enqueue()
        // An interrupted caller never receives the handle, so the run is cancelled.
        return Effect.as(
          Effect.onInterrupt(restore(live.beginning), () =>
            Effect.ignore(live.cancel("The program that dispatched it was stopped."))
          ),
          live
        )
      })
    )
  }

  /** Reserves a part of the budgets for a run that has just got its slot, which therefore counts as free. */
  private readonly prepare = <I extends AllottedInput>(live: AnyHandle, given: I) =>
    this.ledger.allot(live, live.runtime, given, this.gate.free + 1)

  private pending(): ReadonlyArray<InboxEntry> {
    const list: Array<InboxEntry> = []
    for (const live of this.lives) {
      const { name, runId } = live
      for (const request of live.interruptions()) list.push({ request, runId, name })
    }
    return list.toSorted((a, b) => a.request.at - b.request.at)
  }

  private read<A>(readers: Set<Reader<A>>, buffer: Latest<A>): readonly [Reader<A>, () => void] {
    const reader = new Reader(buffer)
    if (this.drained === undefined) readers.add(reader)
    else reader.end()
    return [reader, () => void readers.delete(reader)]
  }

  private close(): Effect.Effect<ReadonlyArray<Drained>> {
    this.isClosed = true
    this.gate.close()
    const lives = this.handles
    const held = new Map<AnyHandle, RunState>()
    for (const live of lives) {
      // Includes running runs that wait for their approval callback or have not acted on a decision.
      const state = live instanceof UnstoredHandle ? live.waiting() : undefined
      if (state === undefined) continue
      held.set(live, state)
      // Cancelled in the same step in which the state was read, so that the run does nothing that the state does not contain.
      live.cancelNow(closing)
    }
    for (const live of lives) {
      if (!live.begun && !live.isStoring && live.status.current() === "queued")
        live.finish(Exit.fail(new ConductorClosed()))
    }
    const timeout = Math.min(5000, millisOr(this.options.drainTimeout, 5000))
    return closeAll(this.group, closing, timeout / 2).pipe(
      Effect.timeoutOption(timeout),
      Effect.map(() => {
        this.drained = lives.map((live) => {
          const state = held.get(live)
          return {
            runId: live.runId,
            name: live.name,
            status: live.status.current(),
            ...(state === undefined ? {} : { held: state })
          }
        })
        for (const reader of [...this.readers, ...this.inboxes]) reader.end()
        return this.drained
      })
    )
  }
}

const closing = "The conductor was closed."

const idsOf = (entries: ReadonlyArray<InboxEntry>): string =>
  entries.map(({ request }) => request.requestId).join(" ")

const sizeOfUpdate = (update: ConductorUpdate): number =>
  update._tag === "update" ? sizeOf(update.update) : 0
