/**
 * Conducts many runs with one hand: so many at a time, within one budget, with one inbox and one stream of what happens, cancelled by
 * name, and suspended together when the program ends.
 *
 * A conductor owns handles and holds no run: what a run is, and whether it is stored, is no different from `dispatchPrompt` and
 * `dispatchPromptStored`. A run that is held gives its slot to another one, and takes one again when it is decided.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { Runtime } from "../agent/Runtime.ts"
import type { Decision, DecisionInput } from "../domain/Decision.ts"
import type { RunId } from "../domain/Id.ts"
import type { Shape } from "../domain/internal/misfits.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { Rejection } from "../domain/Rejection.ts"
import type { AgentNotFound, LimitsInvalid, PolicyInvalid } from "../domain/RunError.ts"
import { storedStartShape } from "../durable/internal/shapes.ts"
import type { StoredStartInput } from "../durable/storedInput.ts"
import { continueShape, startShape } from "../run/internal/shapes.ts"
import { checkLimitsAndPolicy } from "../run/internal/staging.ts"
import type { LimitsAndPolicy } from "../run/internal/startOptions.ts"
import type { ContinueInput, StartInput } from "../run/runInput.ts"
import { RunStore } from "../store/RunStore.ts"
import type { AgentHandle, HandleError, Observed, StoredFault } from "./AgentHandle.ts"
import type { ConductorUpdate, Drained, InboxEntry } from "./ConductorUpdate.ts"
import type { ConductorBudgetExceeded, ConductorClosed, ConductorFull } from "./DispatchError.ts"
import type { ConductOptions, ConductorOptions } from "./dispatchOptions.ts"
import { checkShared, type Spending } from "./internal/conductor/Ledger.ts"
import { RunPool } from "./internal/conductor/RunPool.ts"
import { inCallerContext } from "./internal/handle/BaseHandle.ts"
import { conductorShape, conductShape, storedConductShape } from "./internal/shapes.ts"

export { all, asCompleted, firstSuccess, quorum } from "./internal/conductor/joins.ts"
export type { ConductOptions, ConductorOptions } from "./dispatchOptions.ts"
export type { ConductorUpdate, Drained, InboxEntry } from "./ConductorUpdate.ts"
export type { SharedLimits, Spending } from "./internal/conductor/Ledger.ts"
export type { Restart } from "./internal/handle/restart.ts"

/**
 * Owns a set of handles.
 *
 * @category models
 * @since 0.1.0
 */
export interface Conductor {
  /**
   * Runs a prompt in the background, as soon as there is a slot; see `dispatchPrompt`.
   *
   * **Errors**
   *
   * - `ConductorFull` — dispatch again when a run has ended.
   * - `ConductorBudgetExceeded` — nothing is left of a budget that the runs share.
   * - `ConductorClosed` — dispatch it with another conductor.
   */
  readonly dispatch: <Output>(
    runtime: Runtime<Output>,
    input: StartInput | ContinueInput,
    options?: ConductOptions
  ) => Effect.Effect<AgentHandle<Output>, HandleError | ConductorFull>
  /**
   * The same with a store; see `dispatchPromptStored`. A run that waits for its first slot is not in the store yet.
   */
  readonly dispatchStored: <Output>(
    runtime: Runtime<Output>,
    input: StoredStartInput,
    options?: Omit<ConductOptions, "keepEvents">
  ) => Effect.Effect<AgentHandle<Output, StoredFault>, HandleError | StoredFault | ConductorFull, RunStore>
  /**
   * Takes over a stored run by its id; see `attach`. It counts as one of the runs, and what it spends from now on is counted; its own
   * limits stay.
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
  /** The runs that are not over, in the order in which they were dispatched. */
  readonly handles: () => ReadonlyArray<AgentHandle<unknown, StoredFault>>
  /** What happens in the runs from when it is read, in the order in which it happens. A slow reader misses updates; `skipped` says how many. */
  readonly events: Stream.Stream<ConductorUpdate>
  /** Everything that waits for a decision, in all runs. */
  readonly inbox: Observed<ReadonlyArray<InboxEntry>>
  /**
   * Decides a request, in whichever run it is.
   *
   * **Errors**
   *
   * - A `Rejection` — no such request, decided already, or a decision that does not fit.
   */
  readonly decide: (decision: DecisionInput) => Effect.Effect<Decision, Rejection | StoredFault>
  /** Cancels the runs of a name, and those whose names lie under it. Returns how many, when they are over. */
  readonly cancel: (name: string, reason?: string) => Effect.Effect<number>
  /** What the runs have consumed together, and what is set aside for those that have not ended. */
  readonly spending: () => Spending
  /**
   * Takes no more runs and begins no more turns. Stored runs are suspended: what goes on gets half of the time to come to an end by
   * itself. Others are cancelled. Returns what became of each, after at most `drainTimeout`. Closing the scope does the same.
   */
  readonly drain: Effect.Effect<ReadonlyArray<Drained>>
}

/**
 * Makes a conductor that is drained when the scope closes.
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
 * - `LimitsInvalid` — give limits that are numbers.
 * - `OptionsInvalid` — a key that there is not; the error names the nearest one.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (
  options: ConductorOptions = {}
): Effect.Effect<Conductor, LimitsInvalid | OptionsInvalid, Scope.Scope> =>
  Effect.gen(function* () {
    yield* requireOptions("Conductor.make", options, conductorShape)
    yield* checkShared(options.limits ?? {})
    const orchestra = new RunPool(options)
    yield* Effect.addFinalizer(() => orchestra.drain)
    return {
      dispatch: (runtime, input, given = {}) =>
        Effect.flatMap(
          checkDispatch(input, "state" in input ? continueShape : startShape, given, conductShape),
          (taken) =>
            Effect.flatMap(inCallerContext(given), (options) => orchestra.dispatch(runtime, taken, options))
        ),
      dispatchStored: (runtime, input, given = {}) =>
        Effect.flatMap(checkDispatch(input, storedStartShape, given, storedConductShape), (taken) =>
          Effect.flatMap(inStore(given), (options) => orchestra.dispatchStored(runtime, taken, options))
        ),
      attach: (runtimes, runId, given = {}) =>
        Effect.andThen(
          requireOptions("attach", given, storedConductShape),
          Effect.flatMap(inStore(given), (options) => orchestra.attach(runtimes, runId, options))
        ),
      handles: () => orchestra.handles,
      events: orchestra.events,
      inbox: orchestra.inbox,
      decide: (decision) => orchestra.decide(decision),
      cancel: (name, reason) => orchestra.cancel(name, reason),
      spending: () => orchestra.ledger.spending(),
      drain: orchestra.drain
    }
  })

const inStore = (given: Omit<ConductOptions, "keepEvents">) =>
  Effect.flatMap(RunStore, (store) => inCallerContext({ ...given, store }))

/** What is dispatched is checked when it is given, however long it waits for a slot. */
const checkDispatch = <Input extends LimitsAndPolicy>(
  input: Input,
  inputShape: Shape,
  options: object,
  optionsShape: Shape
): Effect.Effect<Input, LimitsInvalid | OptionsInvalid | PolicyInvalid> =>
  Effect.flatMap(requireOptions("dispatch", input, inputShape), (read) =>
    Effect.andThen(requireOptions("dispatch", options, optionsShape), checkLimitsAndPolicy(read))
  )
