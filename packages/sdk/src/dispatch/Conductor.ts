/**
 * Runs many prompts under one concurrency limit and shared budgets, with one inbox and one stream of updates. The runs can be cancelled by
 * name. When the conductor's scope closes, the stored runs are suspended together, and the others are cancelled.
 *
 * A conductor owns the handles of its runs. The runs behave as with `dispatchPrompt` and `dispatchPromptStored`. A held run releases its
 * slot, and takes one again when it continues.
 *
 * @since 0.1.0
 */
import type * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import { readConfig } from "../agent/internal/readConfig.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { Runtime } from "../agent/Runtime.ts"
import type { Decision, DecisionInput } from "../domain/Decision.ts"
import type { RequestId, RunId } from "../domain/Id.ts"
import type { Shape } from "../domain/internal/misfits.ts"
import { hasKey, withoutUndefined } from "../domain/internal/untyped.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { Rejection } from "../domain/Rejection.ts"
import type { ReopenError, ReopenOptions } from "../domain/reopenInState.ts"
import type {
  AgentNotFound,
  ContextInvalid,
  IdInvalid,
  LimitsInvalid,
  PolicyInvalid
} from "../domain/RunError.ts"
import { storedStartShape } from "../durable/internal/shapes.ts"
import type { StoredStartInput } from "../durable/storedInput.ts"
import { continueShape, startShape } from "../run/internal/shapes.ts"
import { checkIds, checkCallerOptions } from "../run/internal/staging.ts"
import type { CallerOptions } from "../run/internal/startOptions.ts"
import type { ContinueInput, StartInput } from "../run/runInput.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import type { AgentHandle, HandleError, Observed, StoredFault } from "./AgentHandle.ts"
import type { ConductorUpdate, Drained, InboxEntry } from "./ConductorUpdate.ts"
import type { ConductorBudgetExceeded, ConductorClosed, ConductorFull } from "./DispatchError.ts"
import type { ConductOptions, ConductorOptions } from "./dispatchOptions.ts"
import { checkShared, type Spending } from "./internal/conductor/Ledger.ts"
import { RunPool } from "./internal/conductor/RunPool.ts"
import { inCallerContext } from "./internal/handle/BaseHandle.ts"
import { adoptShape, conductorShape, conductShape, storedConductShape } from "./internal/shapes.ts"

export { all, asCompleted, firstSuccess, quorum } from "./internal/conductor/joins.ts"
export type { ConductOptions, ConductorOptions } from "./dispatchOptions.ts"
export type { ConductorUpdate, Drained, InboxEntry } from "./ConductorUpdate.ts"
export type { SharedLimits, Spending } from "./internal/conductor/Ledger.ts"
export type { Restart } from "./internal/handle/restart.ts"

/**
 * Owns a set of handles under one concurrency limit, shared budgets and one inbox.
 *
 * @category models
 * @since 0.1.0
 */
export interface Conductor {
  /**
   * Runs a prompt, or continues a run from its state, in the background, without a store, as soon as there is a slot; see `dispatchPrompt`.
   * `overflow` says what happens until then. `maxRuns` is checked at once, the other budgets when the run gets its slot; `wait` and `done`
   * of a queued run fail with the later error.
   *
   * **Errors**
   *
   * - The errors of `dispatchPrompt`.
   * - `ConductorFull` — dispatch again when a run is held or has ended.
   * - `ConductorBudgetExceeded` — a shared budget is exhausted; raise it, or wait for runs that have reserved a part of it.
   * - `ConductorClosed` — dispatch the prompt with another conductor.
   */
  readonly dispatch: <Output>(
    runtime: Runtime<Output>,
    input: StartInput | ContinueInput,
    options?: ConductOptions
  ) => Effect.Effect<AgentHandle<Output>, HandleError | ConductorFull>
  /**
   * Runs a prompt in the background, in the store, as soon as there is a slot; see `dispatchPromptStored`. A run that waits for its first
   * slot is stored as held before this effect returns. Its conductor starts it, or after a restart the one that adopts it; workers do not. If
   * a budget is exhausted when it gets its slot, it stays queued in the store. Fails with the errors of `dispatchPromptStored` and with those
   * that `dispatch` names.
   */
  readonly dispatchStored: <Output>(
    runtime: Runtime<Output>,
    input: StoredStartInput,
    options?: Omit<ConductOptions, "keepEvents">
  ) => Effect.Effect<AgentHandle<Output, StoredFault>, HandleError | StoredFault | ConductorFull, RunStore>
  /**
   * Takes over a stored run by its id, which may not be that of a sub-agent's run; see `attach`. The run counts towards `maxRuns` once,
   * unless it has ended, and its spending from now on counts towards the budgets. Nothing is reserved for a run that has started, which
   * keeps its own limits; a queued run gets its part of the budgets when it starts. Returns the conductor's handle of the run if it has
   * one; `options` are then ignored.
   */
  readonly attach: (
    runtimes: ReadonlyArray<Runtime>,
    runId: RunId,
    options?: Omit<ConductOptions, "keepEvents">
  ) => Effect.Effect<
    AgentHandle<unknown, StoredFault>,
    AgentNotFound | ConductorBudgetExceeded | ConductorClosed | OptionsInvalid | StoredFault,
    RunStore
  >
  /**
   * Takes over the stored runs of conductors of this name that have not ended, for example after a restart. Runs that had started continue
   * first. Queued runs start after them, when they get a slot, in the order in which they were dispatched. Returns their handles, with the
   * names under which they were dispatched. Each run counts as with `attach`, and none is refused for `maxQueued`. Runs above `maxRuns` are
   * left as they are, with a warning in the log that lists them; the order is: runs that are running, then held and queued ones, each
   * oldest first. Runs of agents that are not in `runtimes` are left out.
   */
  readonly adopt: (
    runtimes: ReadonlyArray<Runtime>,
    options?: Omit<ConductOptions, "keepEvents" | "name">
  ) => Effect.Effect<
    ReadonlyArray<AgentHandle<unknown, StoredFault>>,
    ConductorClosed | OptionsInvalid | RunStoreError,
    RunStore
  >
  /** Returns the handles of the runs that have not ended, in the order in which the runs were dispatched, attached to or forked. */
  readonly handles: () => ReadonlyArray<AgentHandle<unknown, StoredFault>>
  /** Emits the updates of all runs from the subscription on. A slow reader misses updates; a `skipped` update has their number. */
  readonly events: Stream.Stream<ConductorUpdate>
  /** The open requests of all runs, oldest first. */
  readonly inbox: Observed<ReadonlyArray<InboxEntry>>
  /**
   * Takes the decision on a request of any of the runs that have not ended; the first one counts.
   *
   * **Errors**
   *
   * - A `Rejection` — the request does not exist or was already decided, or the decision does not apply to it.
   * - For a stored run, the errors of its store.
   */
  readonly decide: (decision: DecisionInput) => Effect.Effect<Decision, Rejection | StoredFault>
  /** Reopens a denied request of any of the runs that have not ended, with the errors of a handle's `reopen`. */
  readonly reopen: (
    requestId: RequestId,
    options: ReopenOptions
  ) => Effect.Effect<void, ReopenError | OptionsInvalid | StoredFault>
  /** Cancels the runs with this name and those with names under it, such as `a/b` under `a`. Returns their number when they have ended. */
  readonly cancel: (name: string, reason?: string) => Effect.Effect<number>
  /** Returns what the runs that have ended consumed together, and what is reserved for those that have not. */
  readonly spending: () => Spending
  /**
   * Takes no more runs and starts no further operation. Stored runs are suspended; their running operations may finish within half of
   * `drainTimeout`. Other runs are cancelled, and queued ones that were never started end with `ConductorClosed`. Returns, after at most
   * `drainTimeout`, the status of each run that had not ended. Closing the scope does the same.
   */
  readonly drain: Effect.Effect<ReadonlyArray<Drained>>
}

/**
 * Makes a conductor that is drained when the scope closes. By default, it has 10 slots and unlimited budgets, and queues the runs for which
 * there is no slot.
 *
 * **Example** (Asking three, and taking the first answer)
 *
 * ```ts run
 * import { Agent, Conductor, Runtime } from "@fermata/sdk"
 * import { ScriptedModel } from "@fermata/sdk/testing"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function* () {
 *   const runtime = yield* Runtime.make({ agent: Agent.make("searcher") })
 *   const conductor = yield* Conductor.make({ concurrency: 3 })
 *   const handles = yield* Effect.forEach(["web", "wiki", "mail"], (source) =>
 *     conductor.dispatch(runtime, { prompt: `Look it up in ${source}.` }, { name: `search/${source}` })
 *   )
 *   const { text } = yield* Conductor.firstSuccess(handles)
 *   return text
 * })
 * const model = ScriptedModel.make(() => "Found.").layer
 * console.log(await Effect.runPromise(Effect.scoped(Effect.provide(program, model)))) // Found.
 * ```
 *
 * **Errors**
 *
 * - `LimitsInvalid` — a limit is unknown, not a number, negative or, except `maxCostUsd`, a fraction.
 * - `OptionsInvalid` — an option's key or value is wrong; for a misspelt key, the error names the nearest one.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (
  options: ConductorOptions = {}
): Effect.Effect<Conductor, LimitsInvalid | OptionsInvalid, Scope.Scope> =>
  Effect.gen(function* () {
    yield* requireOptions("Conductor.make", options, conductorShape)
    if (options.limits !== undefined) yield* checkShared(options.limits)
    const pool = new RunPool(options)
    yield* Effect.addFinalizer(() => pool.drain)
    return {
      dispatch: (runtime, input, given = {}) =>
        Effect.flatMap(
          checkDispatch(
            runtime,
            input,
            hasKey(input, "state") ? continueShape : startShape,
            given,
            conductShape
          ),
          (taken) =>
            Effect.flatMap(inCallerContext(given), (options) => pool.dispatch(runtime, taken, options))
        ),
      dispatchStored: (runtime, input, given = {}) =>
        Effect.flatMap(checkDispatch(runtime, input, storedStartShape, given, storedConductShape), (taken) =>
          Effect.flatMap(inStore(given), (options) =>
            pool.dispatchStored(runtime, { ...taken, prompt: taken.prompt }, options)
          )
        ),
      attach: (runtimes, runId, given = {}) =>
        Effect.andThen(
          requireOptions("attach", given, storedConductShape),
          Effect.flatMap(inStore(given), (options) => pool.attach(runtimes, runId, options))
        ),
      adopt: (runtimes, given = {}) =>
        Effect.andThen(
          requireOptions("adopt", given, adoptShape),
          Effect.flatMap(inStore(given), (options) => pool.adopt(runtimes, options))
        ),
      handles: () => pool.handles,
      events: pool.events,
      inbox: pool.inbox,
      decide: (decision) => pool.decide(decision),
      reopen: (requestId, options) => pool.reopen(requestId, options),
      cancel: (name, reason) => pool.cancel(name, reason),
      spending: () => pool.ledger.spending(),
      drain: pool.drain
    }
  })

/** The options that are plain values. Each may be `undefined`, for a `Config` with that default. */
type Settings = {
  readonly [Key in "name" | "concurrency" | "overflow" | "maxQueued" | "drainTimeout"]?:
    | ConductorOptions[Key]
    | undefined
}

/** The class of a conductor that is a service of its own, with its layers, as {@link Service} makes it. */
export interface ServiceClass<Self, Id extends string> extends Context.ServiceClass<Self, Id, Conductor> {
  /** Makes the conductor, which is drained with the layer. */
  readonly layer: Layer.Layer<Self, LimitsInvalid | OptionsInvalid>
  /**
   * Like `layer`, with options from the `ConfigProvider`, such as `{ concurrency: Config.Int("CONCURRENCY") }`. Each replaces the option of
   * the class; one whose value is `undefined` does not.
   */
  readonly layerConfig: (
    options: Config.Wrap<Settings>
  ) => Layer.Layer<Self, LimitsInvalid | OptionsInvalid | Config.ConfigError>
}

/**
 * Makes the class of a conductor that is a service. Its name, by which it adopts its stored runs after a restart, is the id of the class,
 * unless the options have a name.
 *
 * **Example** (A conductor as a service)
 *
 * ```ts run
 * import { Agent, Conductor, Runtime } from "@fermata/sdk"
 * import { ScriptedModel } from "@fermata/sdk/testing"
 * import { Effect, Layer } from "effect"
 *
 * class Searcher extends Runtime.Service<Searcher>()("app/Searcher", { agent: Agent.make("searcher") }) {}
 * class Nightly extends Conductor.Service<Nightly>()("app/Nightly", { concurrency: 2 }) {}
 *
 * const program = Effect.gen(function* () {
 *   const nightly = yield* Nightly
 *   const handle = yield* nightly.dispatch(yield* Searcher, { prompt: "Look it up." })
 *   return (yield* handle.wait).status
 * })
 * const model = ScriptedModel.make(["Found."]).layer
 * const services = Layer.merge(Nightly.layer, Layer.provide(Searcher.layer, model))
 * console.log(await Effect.runPromise(Effect.provide(program, services))) // completed
 * ```
 *
 * **Errors**
 *
 * The layers fail with the errors of {@link make}, and `layerConfig` also with `ConfigError`.
 *
 * @category services
 * @since 0.2.0
 */
export const Service =
  <Self>() =>
  <const Id extends string>(id: Id, options: ConductorOptions = {}): ServiceClass<Self, Id> => {
    const service = Context.Service<Self, Conductor>()(id)
    const named = { name: id, ...options }
    return Object.assign(service, {
      layer: Layer.effect(service, make(named)),
      layerConfig: (config: Config.Wrap<Settings>) =>
        Layer.effect(
          service,
          Effect.flatMap(readConfig(config), (given) => make({ ...named, ...withoutUndefined(given) }))
        )
    })
  }

const inStore = (given: Omit<ConductOptions, "keepEvents">) =>
  Effect.flatMap(RunStore, (store) => inCallerContext({ ...given, store }))

/** Checks an input and its options when the run is dispatched, not when it gets its slot. */
const checkDispatch = <
  Input extends CallerOptions & { readonly runId?: string; readonly sessionId?: string }
>(
  runtime: Runtime<any>,
  input: Input,
  inputShape: Shape,
  options: object,
  optionsShape: Shape
): Effect.Effect<Input, ContextInvalid | IdInvalid | LimitsInvalid | OptionsInvalid | PolicyInvalid> =>
  Effect.gen(function* () {
    const read = yield* requireOptions("dispatch", input ?? null, inputShape)
    yield* requireOptions("dispatch", options, optionsShape)
    yield* checkIds(read)
    return yield* checkCallerOptions(read, runtime)
  })
