/**
 * The part of a stored run's handle that waits for a slot of a conductor: stores a new run, watches it while it waits, and starts it within
 * the conductor's budgets.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Struct from "effect/Struct"
import type { Runtime } from "../../../agent/Runtime.ts"
import type { RunId, SessionId } from "../../../domain/Id.ts"
import type { Interruption } from "../../../domain/Interruption.ts"
import type { RunState } from "../../../domain/RunState.ts"
import type { RunStore } from "../../../store/RunStore.ts"
import { RunNotFound, type RunStoreError } from "../../../store/RunStoreError.ts"
import type { HandleError, StoredFault } from "../../AgentHandle.ts"
import type { StoredDispatchOptions } from "../../dispatchOptions.ts"
import type { AllottedInput } from "../conductor/Ledger.ts"
import { watch } from "../watch/StoreWatch.ts"
import { type AnyHandle, BaseHandle, type HandleOptions } from "./BaseHandle.ts"
import {
  type Continuation,
  type DrivenRun,
  enqueue,
  look,
  type Start,
  type StoredFailure
} from "./driveStored.ts"

/** The options with which a stored run is dispatched. */
export interface StoredOptions extends HandleOptions {
  readonly store: RunStore["Service"]
  /** What happens to the run when its scope closes. */
  readonly onClose?: StoredDispatchOptions["onClose"] | undefined
}

/** Prepares the input when the run starts: a conductor limits it to its budgets. */
export type PrepareStored = <Input extends AllottedInput>(
  live: AnyHandle,
  input: Input
) => Effect.Effect<Input, HandleError>

export abstract class QueueHandle<Output>
  extends BaseHandle<Output, StoredFault>
  implements DrivenRun<Output>
{
  declare readonly options: StoredOptions
  protected input: Start | undefined
  protected readonly prepare: PrepareStored | undefined
  protected lastState: RunState | undefined
  /** The number of events of the run that this handle knows. */
  revision = 0
  protected unwatch: (() => void) | undefined
  /** Stores the queued run. */
  private storing: Fiber.Fiber<unknown, StoredFailure> | undefined
  /** The input that starts the queued run, once its part of the budgets is reserved. */
  private starting: Continuation | undefined

  constructor(
    runtime: Runtime<Output>,
    ids: { readonly runId: RunId; readonly sessionId: SessionId },
    options: StoredOptions,
    start?: { readonly input?: Start; readonly prepare?: PrepareStored | undefined }
  ) {
    super(runtime, ids, options)
    const { conductor, name } = options
    const by =
      conductor === undefined
        ? {}
        : { "~conductor": { name: conductor.name, ...(name === undefined ? {} : { as: name }) } }
    this.input = start?.input === undefined ? undefined : { ...start.input, ...by }
    this.prepare = start?.prepare
  }

  abstract missed(revision?: number): Effect.Effect<void, StoredFault>
  abstract knows(state: RunState, open: ReadonlyArray<Interruption>): void
  abstract onRetry(error: RunStoreError): void
  abstract inStore<A, E>(effect: Effect.Effect<A, E, RunStore>): Effect.Effect<A, E>

  override get beginning() {
    return Effect.andThen(this.stored, super.beginning)
  }

  override get isStoring(): boolean {
    return this.storing !== undefined && !this.begun && !this.over
  }

  /** Waits until the queued run is stored, or could not be. */
  protected get stored(): Effect.Effect<void> {
    return Effect.suspend(() => (this.storing === undefined ? Effect.void : Fiber.await(this.storing)))
  }

  override enqueue(): void {
    const { input } = this
    if (input === undefined || this.currentStatus !== "queued") return
    const storing = this.launch(enqueue(this, input))
    this.storing = storing
    storing.addObserver((exit) => {
      if (Exit.isFailure(exit)) this.finish(Exit.failCause(exit.cause))
      else this.watchQueued()
    })
  }

  /** Watches a run that waits for a slot: another process may drive, end or remove it. */
  private watchQueued(): void {
    const { options, runId, runtime } = this
    if (!this.begun || !this.waitsForSlot || this.unwatch !== undefined) return
    const read = Effect.map(look(this), (stands) => {
      if (!this.awaitsSlot && stands !== undefined) this.overtaken(stands)
    })
    this.unwatch = watch(
      options.store,
      {
        runId,
        runtime,
        isElsewhere: false,
        onReady: () => {},
        onHead: ({ revision }) => {
          if (revision !== this.revision) this.launch(Effect.ignore(read))
        },
        onSignal: () => {},
        onRemoved: () => this.finish(Exit.fail(new RunNotFound({ runId, removed: true })))
      },
      (effect) => this.launch(effect)
    )
  }

  /** Whether the run waits for a slot of a conductor that this handle does not have. */
  protected get isFollowed(): boolean {
    return this.awaitsSlot && this.options.conductor === undefined
  }

  get continuation(): Effect.Effect<Continuation, HandleError> {
    return Effect.suspend((): Effect.Effect<Continuation, HandleError> => {
      const { lastState: state, options, prepare, runId, starting } = this
      if (options.conductor === undefined) return Effect.succeed({ runId, "~queued": "keep" })
      if (!this.awaitsSlot || state === undefined) return Effect.succeed({ runId })
      if (starting !== undefined || prepare === undefined) {
        return Effect.succeed(starting ?? { runId, "~queued": "start" })
      }
      const input = { runId, state, "~queued": "start" } as const
      return Effect.map(
        prepare(this, input),
        (prepared) => (this.starting = Struct.omit(prepared, ["state"]))
      )
    })
  }

  protected override changed(): void {
    this.watchQueued()
    super.changed()
  }

  protected unparked(): void {
    this.unwatch?.()
    this.unwatch = undefined
  }
}
