/**
 * What every handle of a run of this process can do, stored or not: at work, held, waiting for a slot, or over.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import * as Cancellation from "../../../agent/Cancellation.ts"
import { isPromise } from "../../../agent/internal/userCode.ts"
import type { Runtime } from "../../../agent/Runtime.ts"
import type { RunUpdate } from "../../../agent/RunUpdate.ts"
import type { Decision, DecisionInput } from "../../../domain/Decision.ts"
import type { RunId, SessionId } from "../../../domain/Id.ts"
import type { Interruption } from "../../../domain/Interruption.ts"
import type { Rejection } from "../../../domain/Rejection.ts"
import type { AgentNotFound, ToolUnavailable } from "../../../domain/RunError.ts"
import type { RunState } from "../../../domain/RunState.ts"
import type { Explanation } from "../../../durable/explain.ts"
import type { LimitsAndPolicy } from "../../../run/internal/startOptions.ts"
import type { Prompt } from "../../../run/Mail.ts"
import type { RunResult } from "../../../run/RunResult.ts"
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
import type { Owned, Owner } from "../Owner.ts"
import { HandleMachine, type MachineOptions } from "./HandleMachine.ts"
import { send } from "./send.ts"

export abstract class BaseHandle<Output, E extends StoredFault>
  extends HandleMachine<Output, E>
  implements AgentHandle<Output, E>, Owned
{
  runId: RunId
  sessionId: SessionId
  readonly runtime: Runtime<Output>
  declare readonly options: HandleOptions
  /** Whether something has happened in it. */
  begun = false
  private readers: Set<Reader<RunUpdate>> | undefined

  constructor(
    runtime: Runtime<Output>,
    ids: { readonly runId: RunId; readonly sessionId: SessionId },
    options: HandleOptions
  ) {
    super(options)
    this.runtime = runtime
    this.runId = ids.runId
    this.sessionId = ids.sessionId
    options.owner.owned.add(this)
    options.conductor?.onMade(this)
  }

  /** Frees what only a run that is not over needs. */
  protected abstract ended(): void
  /** Queues a message for its next turn. */
  abstract deliver(prompt: Prompt, messageId: string | undefined): Effect.Effect<void, SendError | E>
  /** The requests that are open now, also those that this handle has not heard of yet. */
  abstract get openRequests(): Effect.Effect<ReadonlyArray<Interruption>, E>
  /** A run that is not begun, and that begins where the open turn of this one did. */
  protected abstract forked(prompt: Prompt, given: LimitsAndPolicy): BaseHandle<Output, E>
  abstract get state(): () => RunState | undefined
  abstract close(reason: string): Effect.Effect<void>
  abstract get interruptions(): () => ReadonlyArray<Interruption>
  abstract get events(): Stream.Stream<HandleUpdate, E>
  abstract get decide(): (decision: DecisionInput) => Effect.Effect<Decision, Rejection | E>
  abstract get explain(): Effect.Effect<Explanation, E>

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

  /** Says something to a new run that begins where the open turn of this one did. */
  fork(prompt: Prompt, given: LimitsAndPolicy): Effect.Effect<AgentHandle<Output, E>, SendError | E> {
    return Effect.suspend(() => {
      const refused = this.options.conductor?.refuse()
      if (refused !== undefined) return Effect.fail(refused)
      const forked = this.forked(prompt, given)
      forked.begin()
      return Effect.as(forked.beginning, forked)
    })
  }

  /** Waits until it has begun, or never will. */
  protected get hasBegun(): Effect.Effect<void, HandleError | E> {
    return Effect.asVoid(this.when(() => this.begun || this.over || undefined))
  }

  /** Waits until it has begun, or waits for a slot, or will not begin. */
  get beginning(): Effect.Effect<void, HandleError | E> {
    return Effect.flatMap(
      this.when(() => this.begun || this.currentStatus === "queued" || this.over || undefined),
      (): Effect.Effect<void, HandleError | E> =>
        this.begun || this.exit === undefined ? Effect.void : Effect.asVoid(this.exit)
    )
  }

  /** Passes an update on to all who watch the run. */
  publish(update: RunUpdate): void {
    if (!this.begun) {
      this.begun = true
      this.notify()
    }
    this.eachReader((reader) => reader.push(update))
    this.options.conductor?.onUpdate(this, update)
    try {
      const returned: unknown = this.options.onUpdate?.(update)
      if (isPromise(returned)) returned.then(undefined, () => {})
    } catch {
      // A failing subscriber must not fail the run, at once or later.
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

  /** How it stands, or what it waits for, is not as it was. */
  protected changed(): void {
    this.notify()
    this.options.conductor?.onChange(this)
  }

  protected cleanUp(): void {
    this.options.owner.owned.delete(this)
    this.ended()
    this.eachReader((reader) => reader.end(true))
    this.options.conductor?.onOver(this)
  }
}

/** Updates that a reader may be behind. */
export const readerRoom = 256

/** A run of this process, stored or not, with any output. */
export type AnyHandle = BaseHandle<unknown, StoredFault>

/** What a run is dispatched with, besides its input. */
export interface HandleOptions extends MachineOptions {
  readonly name?: string | undefined
  readonly owner: Owner
  readonly clock: Clock.Clock
  /** The conductor that it is dispatched with. */
  readonly conductor?: ConductorLink | undefined
  readonly onUpdate?: ((update: RunUpdate) => void) | undefined
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

/** Options with what a handle takes from the program that dispatches its run. */
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
export const failWhenStuck = <Output>(
  result: RunResult<Output>
): Effect.Effect<RunResult<Output>, AgentNotFound | ToolUnavailable> => {
  const isStuck = result.status === "interrupted" && result.interruptions.length === 0
  const problem = isStuck ? result.missing?.[0] : undefined
  return problem === undefined ? Effect.succeed(result) : Effect.fail(problem)
}

/** What there is to say about a run that waits for a slot. */
export const explainQueued = ({ runId, runtime }: AnyHandle): Explanation => ({
  runId,
  status: "running",
  waitsFor: [],
  decided: [],
  resuming: [],
  text: `The run ${runId} of ${runtime.agent.name} waits for a slot; it has not been begun.`
})
