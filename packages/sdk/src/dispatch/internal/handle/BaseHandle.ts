/**
 * The part of a handle that stored and unstored runs share.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import * as Cancellation from "../../../agent/Cancellation.ts"
import { subscribed } from "../../../agent/internal/userCode.ts"
import type { Runtime } from "../../../agent/Runtime.ts"
import type { LiveRun } from "../../../agent/RuntimeDefinition.ts"
import type { RunUpdate } from "../../../agent/RunUpdate.ts"
import type { Decision, DecisionInput } from "../../../domain/Decision.ts"
import type { RunId, SessionId, Timestamp } from "../../../domain/Id.ts"
import type { Interruption } from "../../../domain/Interruption.ts"
import type { Rejection } from "../../../domain/Rejection.ts"
import type { AgentNotFound, ToolUnavailable } from "../../../domain/RunError.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import type { RunState } from "../../../domain/RunState.ts"
import type { Explanation } from "../../../durable/explain.ts"
import type { CallerOptions } from "../../../run/internal/startOptions.ts"
import type { Prompt } from "../../../run/Mail.ts"
import type { RunResult } from "../../../run/RunResult.ts"
import type { LeaseLost, RunBusy, RunConflict } from "../../../store/RunStoreError.ts"
import type {
  AgentHandle,
  HandleError,
  HandleUpdate,
  SendError,
  HandleSendOptions,
  StoredFault
} from "../../AgentHandle.ts"
import type { ConductorBudgetExceeded, ConductorClosed } from "../../DispatchError.ts"
import type { Gate } from "../conductor/Gate.ts"
import type { Reader } from "../events/Reader.ts"
import type { Piece } from "../events/signals.ts"
import type { Grouped, HandleGroup } from "../HandleGroup.ts"
import { HandleMachine, type MachineOptions } from "./HandleMachine.ts"
import { send } from "./send.ts"

/** Why an event was not recorded in a run that this process does not drive. */
export type RecordError = RunBusy | RunConflict | LeaseLost

/** A reader, which may take more than updates. */
type AnyReader = Pick<Reader<Piece>, "push" | "end" | "poke">

export abstract class BaseHandle<Output, E extends StoredFault>
  extends HandleMachine<Output, E>
  implements AgentHandle<Output, E>, Grouped
{
  runId: RunId
  sessionId: SessionId
  readonly runtime: Runtime<Output>
  declare readonly options: HandleOptions
  /** Whether the run has started: it has an event, or is in the store. */
  begun = false
  /** Whether the stored run waits for its first slot. */
  awaitsSlot = false
  private readers: Set<AnyReader> | undefined
  private readonly onUpdate: HandleOptions["onUpdate"]

  constructor(
    runtime: Runtime<Output>,
    ids: { readonly runId: RunId; readonly sessionId: SessionId },
    options: HandleOptions
  ) {
    super(options)
    this.runtime = runtime
    this.runId = ids.runId
    this.sessionId = ids.sessionId
    const { context, onUpdate } = options
    if (onUpdate !== undefined) {
      const called = () => ({ code: "onUpdate", runId: this.runId, agent: runtime.agent.name })
      this.onUpdate = subscribed(runtime, called, () => context, onUpdate)
    }
    options.group.handles.add(this)
    options.conductor?.onMade(this)
  }

  /** Frees the resources that only a run that has not ended needs. */
  protected abstract ended(): void
  /** Queues a message for the next turn. */
  abstract deliver(prompt: Prompt, messageId: string | undefined): Effect.Effect<void, SendError | E>
  /** Reads the open requests, including those that this handle does not know yet. */
  abstract get openRequests(): Effect.Effect<ReadonlyArray<Interruption>, E>
  /** Makes the handle of a fork from the start of the open turn. The fork is not started. */
  protected abstract forked(prompt: Prompt, given: CallerOptions): BaseHandle<Output, E>
  abstract get state(): () => RunState | undefined
  abstract close(reason: string): Effect.Effect<void>
  abstract get interruptions(): () => ReadonlyArray<Interruption>
  abstract get events(): Stream.Stream<HandleUpdate, E>
  abstract get decide(): (decision: DecisionInput) => Effect.Effect<Decision, Rejection | E>
  abstract get reopen(): AgentHandle<Output, E>["reopen"]
  abstract get explain(): Effect.Effect<Explanation, E>
  /**
   * Records an event that is no part of the loop: before the run's next step if this process drives the run, at once if no process does. A
   * run that has ended records nothing.
   */
  abstract record(make: (at: Timestamp) => RunEvent): Effect.Effect<void, RecordError | E>
  /** Stores a run that waits for its first slot. */
  enqueue(): void {}
  /** Whether {@link enqueue} is in progress. */
  get isStoring(): boolean {
    return false
  }

  get name(): string | undefined {
    return this.options.name
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
    ): Effect.Effect<AgentHandle<Output, E>, SendError | E> => this.sending(send(this, prompt, options))
  }

  /** Forks the run from the start of its open turn, and sends the prompt to the fork. */
  fork(prompt: Prompt, given: CallerOptions): Effect.Effect<AgentHandle<Output, E>, SendError | E> {
    return Effect.suspend(() => {
      const refused = this.options.conductor?.refuse()
      if (refused !== undefined) return Effect.fail(refused)
      const forked = this.forked(prompt, given)
      forked.begin()
      forked.enqueue()
      return Effect.as(forked.beginning, forked)
    })
  }

  /** Waits until the run has started, or the handle is over without a start. */
  protected get hasBegun(): Effect.Effect<void, HandleError | E> {
    return Effect.asVoid(this.when(() => this.begun || this.over || undefined))
  }

  /** Waits until the run has started or is queued. Fails with the error that prevented the start. */
  get beginning(): Effect.Effect<void, HandleError | E> {
    return Effect.flatMap(
      this.when(() => this.begun || this.currentStatus === "queued" || this.over || undefined),
      (): Effect.Effect<void, HandleError | E> =>
        this.begun || this.exit === undefined ? Effect.void : Effect.asVoid(this.exit)
    )
  }

  /** Publishes an update to the readers, the conductor and `onUpdate`. */
  publish(update: RunUpdate): void {
    if (!this.begun) {
      this.begun = true
      this.notify()
    }
    this.eachReader((reader) => reader.push(update))
    this.options.conductor?.onUpdate(this, update)
    this.onUpdate?.(update)
  }

  /** Adds a reader of the updates. Returns a function that removes it. */
  protected addReader(reader: AnyReader): () => void {
    if (this.over) reader.end()
    else (this.readers ??= new Set()).add(reader)
    return () => {
      this.readers?.delete(reader)
    }
  }

  /** The run, if this process drives it. */
  protected get live(): LiveRun | undefined {
    for (const run of this.runtime.runs) if (run.runId === this.runId) return run
    return undefined
  }

  protected eachReader(f: (reader: AnyReader) => void): void {
    for (const reader of this.readers ?? []) f(reader)
  }

  protected changed(): void {
    this.notify()
    this.options.conductor?.onChange(this)
  }

  protected cleanUp(): void {
    this.options.group.handles.delete(this)
    this.ended()
    this.eachReader((reader) => reader.end(true))
    this.options.conductor?.onOver(this)
  }
}

/** The number of updates that are buffered for a reader. */
export const readerRoom = 256

/** A handle of a run, stored or not, with any output. */
export type AnyHandle = BaseHandle<unknown, StoredFault>

/** The options with which a run is dispatched. */
export interface HandleOptions extends MachineOptions {
  readonly name?: string | undefined
  readonly group: HandleGroup
  readonly clock: Clock.Clock
  /** The conductor that dispatched the run. */
  readonly conductor?: ConductorLink | undefined
  readonly onUpdate?: ((update: RunUpdate) => void) | undefined
  readonly keepEvents?: number | undefined
}

/** The conductor of a handle, as the handle uses it. */
export interface ConductorLink {
  /** The name that is stored with its runs. */
  readonly name: string
  readonly gate: Gate
  readonly onMade: (live: AnyHandle) => void
  readonly onUpdate: (live: AnyHandle, update: RunUpdate) => void
  /** Called when the status or the requests of a run have changed. */
  readonly onChange: (live: AnyHandle) => void
  readonly onOver: (live: AnyHandle) => void
  /** Counts one more run, or returns the error that refuses it. */
  readonly refuse: () => ConductorBudgetExceeded | ConductorClosed | undefined
}

/** Adds the context, the clock and the cancellation token of the caller to the options of a handle. */
export const inCallerContext = Effect.fnUntraced(function* <
  Options extends Pick<HandleOptions, "cancellation">
>(given: Options) {
  return {
    ...given,
    context: yield* Effect.context<never>(),
    clock: yield* Clock.Clock,
    cancellation: given.cancellation ?? (yield* Cancellation.CancellationToken)
  }
})

/** The ids of a new run: those of its input, or generated ones. */
export const newIds = (
  { ids }: Runtime,
  given: { readonly runId?: RunId; readonly sessionId?: SessionId },
  { clock }: HandleOptions
) => {
  const now = clock.currentTimeMillisUnsafe()
  return { runId: given.runId ?? ids.runId(now), sessionId: given.sessionId ?? ids.sessionId(now) }
}

/**
 * Fails if a run waits only for missing definitions, which no decision can supply. The handle fails with this error; the run stays held.
 */
export const failWhenStuck = <Output>(
  result: RunResult<Output>
): Effect.Effect<RunResult<Output>, AgentNotFound | ToolUnavailable> => {
  const isStuck = result.status === "interrupted" && result.interruptions.length === 0
  const problem = isStuck ? result.missing?.[0] : undefined
  return problem === undefined ? Effect.succeed(result) : Effect.fail(problem)
}

/** The explanation of a run that waits for its first slot. */
export const explainQueued = ({ runId, runtime }: AnyHandle): Explanation => ({
  runId,
  status: "running",
  waitsFor: [],
  decided: [],
  resuming: [],
  text: `The run ${runId} of ${runtime.agent.name} waits for a slot and has not started.`
})
