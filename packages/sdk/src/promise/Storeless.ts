/**
 * A Fermata without a store: its runs are in the memory of the process, and the caller keeps the states of held runs.
 *
 * A result has the run's state, which is plain JSON. `resume` continues the run, in this process or in another one that has the same
 * agents. Nothing prevents two programs from continuing the same state; only a store does. What needs a store, such as an inbox over all
 * runs or a worker, is absent. An exhausted budget or a missing login fails the run, and opens no request.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import type { Agent } from "../agent/AgentDefinition.ts"
import * as Cancellation from "../agent/Cancellation.ts"
import { checkOptions } from "../agent/internal/soundOptions.ts"
import type { Runtime } from "../agent/Runtime.ts"
import type { Configuration } from "../agent/RuntimeHooks.ts"
import type * as Conductor from "../dispatch/Conductor.ts"
import { attribute } from "../domain/Principal.ts"
import type { RunState } from "../domain/RunState.ts"
import type { ModelClient } from "../model/ModelClient.ts"
import type { Restored } from "../run/captureState.ts"
import type { ResumeReport } from "../run/checkResume.ts"
import type { Prompt } from "../run/Mail.ts"
import { runPrompt } from "../run/runPrompt.ts"
import type { RunResult } from "../run/RunResult.ts"
import type { RunStore } from "../store/RunStore.ts"
import { makeBackground } from "./internal/background.ts"
import { bindAgents, requireDistinct } from "./internal/bindAgents.ts"
import { makeCapturing, runtimeOf, stateOf } from "./internal/capturing.ts"
import { type ControlPlaneOptions, makeControlling, type RunControlPlane } from "./internal/controlling.ts"
import { continueStateOf, startOf } from "./internal/inputs.ts"
import type {
  BackgroundOptions,
  FermataChange,
  FermataOptions,
  PromptOptions,
  ResumeOptions
} from "./internal/options.ts"
import { makeReconfigure } from "./internal/reconfiguring.ts"
import { settingsOf } from "./internal/settings.ts"
import {
  requireKnown,
  resumeShape,
  storelessShape,
  unstoredDispatchShape,
  unstoredPromptShape
} from "./internal/shapes.ts"
import { makeResumeStream, makeTextStream, type RunStream } from "./internal/textStream.ts"
import { makeWork } from "./internal/work.ts"
import type { RunConductor, RunHandle } from "./RunHandle.ts"

export { FermataClosed } from "./internal/FermataClosed.ts"

/** The options of a Fermata without a store: those of a Fermata, without `store` `memory` and the ones for leases (`owner`, `leaseTtl`). */
export type StorelessOptions = Omit<FermataOptions, "store" | "memory" | "owner" | "leaseTtl">

/**
 * Runs agents, whose runs can be held, and stores no run. Made by {@link make}.
 *
 * @category models
 * @since 0.1.0
 */
export interface Storeless extends AsyncDisposable {
  /**
   * Runs a prompt until the run is held or has ended. `agent` is an agent of this Fermata, or its name or alias. If the run fails, the
   * result has the status `error`.
   */
  readonly runPrompt: <Output = unknown>(
    agent: string | Agent<never, Output>,
    prompt: Prompt,
    options?: Omit<PromptOptions, "mayRepeat">
  ) => Promise<RunResult<Output>>
  /** Runs a prompt and streams its text; see `Fermata.stream`. To cancel the run, pass a `signal`. */
  readonly stream: <Output = unknown>(
    agent: string | Agent<never, Output>,
    prompt: Prompt,
    options?: Omit<PromptOptions, "mayRepeat">
  ) => RunStream<Output>
  /**
   * Continues a held or failed run from its state, or from the JSON text of the state, until the run is held again or
   * has ended. With `decisions`, the run's requests are decided first. With a `prompt`, a run that has ended is followed by the next run of
   * its session; without one, a completed or cancelled run rejects with `RunEnded`. An `agent` types the output.
   */
  readonly resume: <Output = unknown>(
    state: RunState | string,
    options?: ResumeOptions<Output>
  ) => Promise<RunResult<Output>>
  /**
   * Continues a run from its state, as `resume` does, and streams the text that its agent writes from then on; see `Fermata.stream`. To
   * cancel the run, pass a `signal`. Throws `RunStateMalformed` or `RunStateTooNew` at once if the state cannot be read.
   */
  readonly resumeStream: <Output = unknown>(
    state: RunState | string,
    options?: ResumeOptions<Output>
  ) => RunStream<Output>
  /**
   * Runs a prompt in the background. Resolves to a handle once the run has started. A held run continues when it is decided through its
   * handle, or when a request expires. Closing the Fermata cancels the run, also while it is held.
   */
  readonly dispatch: <Output = unknown>(
    agent: string | Agent<never, Output>,
    prompt: Prompt,
    options?: Omit<BackgroundOptions, "mayRepeat" | "onClose">
  ) => Promise<RunHandle<Output>>
  /**
   * Makes a conductor, which runs many prompts under one concurrency limit, shared budgets and one inbox. Disposing of it, or closing the
   * Fermata, cancels its runs; its `drain` does so, too, and returns the states of those that were held.
   */
  readonly conductor: (options?: Conductor.ConductorOptions) => Promise<RunConductor>
  /** Makes a control plane; see `Fermata.controlPlane`. Its tasks and sessions end with it. */
  readonly controlPlane: (options?: ControlPlaneOptions) => Promise<RunControlPlane>
  /**
   * Reports what has changed in this program's agents since the run recorded them (`changes`), and which agents and tools keep the run or a
   * part of it from continuing (`blocking`).
   */
  readonly checkResume: (state: RunState | string) => Promise<ResumeReport>
  /**
   * Returns one text with a state, and with the profile, the mode and the chosen model profile that the state's agent has in this process;
   * see `Fermata.captureState`.
   */
  readonly captureState: (state: RunState | string) => Promise<string>
  /**
   * Reads a text of `captureState`, and gives the state's agent in this process the profile, mode and model profile in it, for all its
   * runs. Resolves to the state, with what has changed since the run started and what prevents continuing it. Continue the state with
   * `resume`.
   */
  readonly restoreState: (capture: string) => Promise<Restored>
  /** Changes the agents and their settings between turns; see `Fermata.reconfigure`. */
  readonly reconfigure: (change: FermataChange) => Promise<Readonly<Record<string, Configuration>>>
  /**
   * Starts no further run (`FermataClosed`) and cancels the runs: background runs at once, those of `runPrompt`, `stream` and `resume`
   * after `drainTimeout` if they are neither held nor ended by then. Then closes the extensions.
   */
  readonly close: () => Promise<void>
}

/**
 * Makes a Fermata without a store. `createFermata` of `@fermata/node` makes one with `store: false`.
 *
 * **Errors**
 *
 * - Those of `Fermata.make`, except the errors of a store.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = async (options: StorelessOptions): Promise<Storeless> => {
  requireKnown("createFermata", options ?? null, storelessShape)
  const { agents: definitions, by = "unnamed", drainTimeout = "2 seconds", ...settings } = options
  await Effect.runPromise(checkOptions(options, { drainTimeout: "duration" }))
  const decider = attribute(by)
  if (Result.isFailure(decider)) throw decider.failure
  requireDistinct(definitions)
  const suspension = { soon: Cancellation.make(), now: Cancellation.make() }
  const { runtimeOptions, services } = settingsOf(settings, by)
  const shared = { ...runtimeOptions, cancellation: suspension.now }
  // Nothing here runs an effect that needs a store.
  const managed = ManagedRuntime.make(services as Layer.Layer<ModelClient | RunStore>)
  const agents = await managed
    .runPromise(Scope.provide(bindAgents(definitions, shared), managed.scope))
    .catch(async (error: unknown) => {
      await managed.dispose()
      throw error
    })
  const work = makeWork({ managed, runtimes: agents.all, suspension, drainTimeout, publish: () => {} })
  const { run } = work
  const background = makeBackground({ ...work, agents, by, drainTimeout, isStored: false })
  const controlling = makeControlling({ agents, by, run, drainTimeout })
  const capturing = makeCapturing({ agents, run })
  const runOptions = (given: Pick<PromptOptions, "signal" | "onUpdate">) => {
    const { cancellation, onUpdate } = work.runOptions(given)
    return { cancellation, onUpdate }
  }

  const start: Storeless["runPrompt"] = async (agent, prompt, given = {}) => {
    requireKnown("runPrompt", given, unstoredPromptShape)
    return run(runPrompt(agents.of(agent), startOf(prompt, given), runOptions(given)))
  }

  const resume: Storeless["resume"] = async <Output>(
    state: RunState | string,
    given: ResumeOptions<Output> = {}
  ) => {
    requireKnown("resume", given, resumeShape)
    const input = continueStateOf(stateOf(state), given, by)
    const runtime = given.agent === undefined ? runtimeOf(agents, input.state) : agents.of(given.agent)
    return run(runPrompt(runtime as Runtime<Output>, input, runOptions(given)))
  }

  const fermata: Omit<Storeless, typeof Symbol.asyncDispose> = {
    runPrompt: start,
    stream: makeTextStream({ agents, shape: unstoredPromptShape, runPrompt: start }),
    resume,
    resumeStream: makeResumeStream({ idOf: (state: RunState | string) => stateOf(state).runId, resume }),
    dispatch: async (agent, prompt, given) => {
      requireKnown("dispatch", given, unstoredDispatchShape)
      return background.dispatch(agents.of(agent), prompt, given)
    },
    conductor: background.conductor,
    controlPlane: controlling.controlPlane,
    checkResume: async (state) => capturing.check(state),
    captureState: async (state) => capturing.capture(state),
    restoreState: async (text) => capturing.restore(text),
    reconfigure: makeReconfigure({ agents, options: shared, scope: managed.scope, run }),
    close: () => work.close(async () => void (await Promise.all([controlling.close(), background.close()])))
  }

  return { ...fermata, [Symbol.asyncDispose]: fermata.close }
}
