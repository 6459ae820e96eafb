/**
 * Fermata for programs that do not use Effect: the same runs, results and errors, as promises.
 *
 * A `Fermata` is a store, a model and some agents. It starts runs, lists what is pending, takes decisions, and continues runs
 * from their ids, also those that another process has started. Close it (or `await using` it) when you are done.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Result from "effect/Result"
import type { Agent } from "../agent/AgentDefinition.ts"
import * as Cancellation from "../agent/Cancellation.ts"
import { checkOptions } from "../agent/internal/soundOptions.ts"
import type { RunUpdate } from "../agent/RunUpdate.ts"
import type * as Conductor from "../dispatch/Conductor.ts"
import type { Decision, DecisionInput } from "../domain/Decision.ts"
import type { GrantId, RunId } from "../domain/Id.ts"
import type { Interruption } from "../domain/Interruption.ts"
import { attribute } from "../domain/Principal.ts"
import type { RunState } from "../domain/RunState.ts"
import { exportRun, importRun, type RunArchive } from "../durable/archive.ts"
import { checkStoredRun } from "../durable/checkStoredRun.ts"
import { decideAllStored, decideStored } from "../durable/decideStored.ts"
import { explain, type Explanation } from "../durable/explain.ts"
import { forkRun, rewindPoints, type RewindPoint } from "../durable/forkRun.ts"
import { recoverShape } from "../durable/internal/shapes.ts"
import { loadState } from "../durable/loadState.ts"
import { recover, type Recovered } from "../durable/recover.ts"
import { revokeGrant } from "../durable/revokeGrant.ts"
import { runPromptStored } from "../durable/runPromptStored.ts"
import { sendMessage, type SendOptions } from "../durable/sendMessage.ts"
import type { RecoverOptions } from "../durable/storedInput.ts"
import { ModelClient } from "../model/ModelClient.ts"
import type { ResumeReport } from "../run/checkResume.ts"
import type { Prompt } from "../run/Mail.ts"
import type { RunResult } from "../run/RunResult.ts"
import { type ListFilter, type PendingFilter, RunStore } from "../store/RunStore.ts"
import type { DamagedRun, PendingRequest, RunHead } from "../store/RunStorePort.ts"
import type { Receipt } from "../store/SentMessage.ts"
import type { GrantFilter, StoredGrant } from "../store/StoredGrant.ts"
import { Scrubber } from "../tool/Scrubber.ts"
import type { DecisionBody } from "./decisions.ts"
import { makeBackground } from "./internal/background.ts"
import { bindAgents, requireDistinct } from "./internal/bindAgents.ts"
import { makeWatch } from "./internal/events.ts"
import { continueOf, forkOf, startOf } from "./internal/inputs.ts"
import type {
  DecideOptions,
  DecisionOn,
  ConductorDispatchOptions,
  EventsOptions,
  FermataOptions,
  ForkOptions,
  PlainIds,
  PromptOptions,
  ResumeOptions,
  WorkOptions
} from "./internal/options.ts"
import {
  decideShape,
  dispatchShape,
  eventsShape,
  fermataShape,
  forkShape,
  promptShape,
  pruneShape,
  requireKnown,
  resumeShape,
  workShape
} from "./internal/shapes.ts"
import { makeWork } from "./internal/work.ts"
import { decisionOf, decisionOn, type RunConductor, type RunHandle } from "./RunHandle.ts"

export { FermataClosed } from "./internal/FermataClosed.ts"
export type * from "./internal/options.ts"

/**
 * Runs agents that can be held and released.
 *
 * @category models
 * @since 0.1.0
 */
export interface Fermata extends AsyncDisposable {
  /** Runs a prompt until the run is held or over. */
  readonly runPrompt: <Output = unknown>(
    agent: string | Agent<never, Output>,
    prompt: Prompt,
    options?: PromptOptions
  ) => Promise<RunResult<Output>>
  /** Runs a prompt in the background: the handle is there as soon as the run is in the store. A held run goes on when it is decided. */
  readonly dispatch: <Output = unknown>(
    agent: string | Agent<never, Output>,
    prompt: Prompt,
    options?: PromptOptions & Pick<ConductorDispatchOptions, "name">
  ) => Promise<RunHandle<Output>>
  /** Finds a run again by its id, after a restart or from another process; also that of a sub-agent. */
  readonly attach: (runId: string) => Promise<RunHandle>
  /** Conducts many runs: so many at a time, within one budget, with one inbox. Dispose of it, or close this, when you are done. */
  readonly conductor: (options?: Conductor.ConductorOptions) => Promise<RunConductor>
  /** Goes on with a run, from its id alone, until it is held again or over. */
  readonly resume: (runId: string, options?: ResumeOptions) => Promise<RunResult>
  /**
   * Says something to a run, or to a sub-agent by its run, in whichever process it is driven: it is in the store when this resolves, and is read
   * before the run's next turn. Sent again with the same `messageId`, it is the same message.
   */
  readonly send: (runId: string, prompt: Prompt, options?: SendOptions) => Promise<Receipt>
  /**
   * Starts a run in a session of its own from what another one was at an earlier moment, and runs it until it is held or over. What
   * tools have done stays done.
   */
  readonly fork: (runId: string, prompt: Prompt, options?: ForkOptions) => Promise<RunResult>
  /** The moments of a run from which it can be forked, oldest first. */
  readonly rewindPoints: (runId: string) => Promise<ReadonlyArray<RewindPoint>>
  /** What waits for a decision, over all runs of the store, oldest first: 100 at a time, or `limit`, behind the request `after`. */
  readonly pending: (filter?: PlainIds<PendingFilter>) => Promise<ReadonlyArray<PendingRequest>>
  /** Takes a decision, once per request. Given the request itself, it is bound to the arguments that were shown. */
  readonly decide: (
    request: string | Interruption | PendingRequest,
    decision: DecisionBody,
    options?: DecideOptions
  ) => Promise<Decision>
  /**
   * Takes several decisions, all or none, on requests of any runs, and resolves to them in their order. The first that is refused refuses
   * all of them.
   */
  readonly decideAll: (decisions: ReadonlyArray<DecisionOn>) => Promise<ReadonlyArray<Decision>>
  /** The events of a run, or of a sub-agent's run by its own id: first the stored ones, then those that follow. */
  readonly events: (runId: string, options?: EventsOptions) => AsyncIterable<RunUpdate>
  /** Takes up, once, every run that needs a worker: left by a process that died, decided about, expired. */
  readonly recover: (options?: RecoverOptions) => Promise<ReadonlyArray<Recovered>>
  /**
   * Keeps taking up runs that need a worker, as soon as they do, until the signal is aborted or this is closed. Then it lets
   * go of them: they stay in the store for the next process.
   */
  readonly work: (options?: WorkOptions) => Promise<void>
  /** What a run, also a sub-agent's, waits for, since when, who asked, when that expires, and what resuming it would do. */
  readonly explain: (runId: string) => Promise<Explanation>
  /** Ends a run, in whichever process it is driven; of a sub-agent's run that one alone, with what is under it. */
  readonly cancel: (runId: string, reason?: string) => Promise<void>
  /**
   * The runs of the store, newest first: 100 at a time, or `limit`, behind the run `after`. One that cannot be read is left out, with a
   * warning in the log: see `damagedRuns`.
   */
  readonly runs: (filter?: PlainIds<ListFilter>) => Promise<ReadonlyArray<RunHead>>
  /** What `runs`, `pending` and `grants` leave out because it cannot be read, and what to do about it. It reads the entries of all runs. */
  readonly damagedRuns: () => Promise<ReadonlyArray<DamagedRun>>
  /** The whole state of a run. */
  readonly state: (runId: string) => Promise<RunState>
  /** What has changed in this program since the run was stored, and what of it stands in the way. */
  readonly checkResume: (runId: string) => Promise<ResumeReport>
  /**
   * The standing approvals of the store, oldest first, revoked ones included: 100 at a time, or `limit`, behind the grant `after`. One that
   * cannot be read is left out: see `damagedRuns`.
   */
  readonly grants: (filter?: PlainIds<GrantFilter>) => Promise<ReadonlyArray<StoredGrant>>
  /**
   * Revokes a standing approval of a run or its session: from then on no call starts under it, in any run, fork or process. Rejects
   * with `GrantNotFound` where there is none.
   */
  readonly revokeGrant: (runId: string, grantId: string, options?: DecideOptions) => Promise<StoredGrant>
  /** A copy of a run and of those that it builds on, with what waits for each, as one JSON value. */
  readonly exportRun: (runId: string) => Promise<RunArchive>
  /**
   * Puts copies into the store and returns the id of the exported run. To move runs, remove the originals before the copies are resumed: a
   * fork is copied with the run that it builds on. Trust an archive as much as the database: it holds approvals. Revocations in it are taken
   * in also where it rejects with `RunExists` or `SessionBusy`, which list them in `revoked`.
   */
  readonly importRun: (archive: unknown) => Promise<string>
  /** Deletes a run and everything that belongs to it. */
  readonly remove: (runId: string) => Promise<void>
  /** Deletes the sessions that ended before a time (milliseconds), and returns how many runs that were. */
  readonly prune: (options: { readonly endedBefore: number }) => Promise<number>
  /**
   * Suspends the runs of this process, and closes the store. Nothing new is begun; what is going on gets `drainTimeout` to
   * finish, then the tools' grace period. Runs that were not held or over by then reject with `RunSuspended`, and stay in the
   * store for the next process.
   */
  readonly close: () => Promise<void>
}

/**
 * Makes a Fermata from a store layer. `@fermata/node` has the one with a SQLite file.
 *
 * **Errors**
 *
 * Rejects with `OptionsInvalid` for an option that there is not, with `RuntimeOptionsInvalid` or `PrincipalInvalid` for one that takes
 * something else, with `RunStoreError` when the store cannot be opened, and with `ToolNameTaken`, `ToolDefinitionError` or
 * `AgentDefinitionError` when an agent's definition cannot work.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = async (options: FermataOptions): Promise<Fermata> => {
  requireKnown("createFermata", options ?? null, fermataShape)
  const {
    agents: definitions,
    model,
    store: storeLayer,
    scrubber,
    by = "unnamed",
    drainTimeout = "2 seconds",
    ...runtimeOptions
  } = options
  await Effect.runPromise(checkOptions(options, { drainTimeout: "duration" }))
  const decider = attribute(by)
  if (Result.isFailure(decider)) throw decider.failure
  requireDistinct(definitions)
  const layer = Layer.mergeAll(
    storeLayer,
    Layer.succeed(ModelClient, model),
    ...(scrubber === undefined ? [] : [Layer.succeed(Scrubber, scrubber)])
  )
  const managed = ManagedRuntime.make(layer)
  // The store is opened here, so that what is wrong with it is known before the first run.
  const opening = Effect.all({
    store: RunStore,
    context: Effect.context<never>(),
    agents: bindAgents(definitions, runtimeOptions)
  })
  const { agents, context, store } = await managed.runPromise(opening).catch(async (error: unknown) => {
    await managed.dispose()
    throw error
  })
  const runtimes = agents.all
  const suspension = { soon: Cancellation.make(), now: Cancellation.make() }
  // Others may listen to the store with it, and do so after this is closed: it is not of the managed runtime.
  const watching = makeWatch({ store, fork: Effect.runForkWith(context), closed: suspension.soon })
  const work = makeWork({ managed, runtimes, suspension, drainTimeout, publish: watching.publish })
  const { run, runOptions } = work
  const background = makeBackground({ ...work, agents, by, drainTimeout })
  const agentOf = async (runId: string) => (await run(store.head(runId as RunId))).agent

  const fermata: Omit<Fermata, typeof Symbol.asyncDispose> = {
    runPrompt: async (agent, prompt, given = {}) => {
      requireKnown("runPrompt", given, promptShape)
      return run(runPromptStored(agents.of(agent), startOf(prompt, given), runOptions(given)))
    },
    dispatch: async (agent, prompt, given) => {
      requireKnown("dispatch", given, dispatchShape)
      return background.dispatch(agents.of(agent), prompt, given)
    },
    attach: background.attach,
    conductor: background.conductor,
    resume: async (runId, given = {}) => {
      requireKnown("resume", given, resumeShape)
      // Of one agent it is, or is refused: what goes on with it looks itself.
      const [only, ...others] = runtimes
      const runtime = only !== undefined && others.length === 0 ? only : agents.named(await agentOf(runId))
      return run(runPromptStored(runtime, continueOf(runId, given), runOptions(given)))
    },
    send: (runId, prompt, given) => run(sendMessage(runId as RunId, prompt, given)),
    fork: async (runId, prompt, given = {}) => {
      requireKnown("fork", given, forkShape)
      const runtime = agents.named(given.agent ?? (await agentOf(runId)))
      return run(forkRun(runtime, forkOf(runId, prompt, given), runOptions(given)))
    },
    rewindPoints: (runId) => run(rewindPoints(runId as RunId)),
    pending: (filter) => run(store.pending(filter as PendingFilter | undefined)),
    decide: async (given, body, options) => run(decideStored(runtimes, decisionOf(given, body, options, by))),
    decideAll: async (given) => {
      const inputs = Array.isArray(given) ? given.map((one: DecisionOn) => decisionOn(one, by)) : given
      return run(decideAllStored(runtimes, inputs as ReadonlyArray<DecisionInput>))
    },
    events: (runId, given) => {
      requireKnown("events", given, eventsShape)
      return watching.events(runId as RunId, given)
    },
    recover: async (given = {}) => {
      requireKnown("recover", given, recoverShape)
      return run(
        Effect.andThen(
          checkOptions(given, { limit: "number", concurrency: "number" }),
          Effect.suspend(() => recover(runtimes, { suspension, ...given, onUpdate: work.publishing(given) }))
        )
      )
    },
    work: async (given = {}) => {
      requireKnown("work", given, workShape)
      const numbers = { concurrency: "number", pollInterval: "duration", drainTimeout: "duration" } as const
      await Effect.runPromise(checkOptions(given, numbers))
      return work.work(given)
    },
    explain: (runId) => run(explain(runId as RunId, { runtimes })),
    cancel: async (runId, reason = "cancelled by the caller") => {
      await work.cancel(runId, String(reason))
      watching.poke(runId as RunId)
    },
    runs: (filter) => run(store.list(filter as ListFilter | undefined)),
    damagedRuns: () => run(store.damaged),
    state: (runId) => run(loadState(runId as RunId)),
    checkResume: async (runId) => {
      const agent = await agentOf(runId)
      const runtime = agents.find(agent)
      return runtime === undefined
        ? { changes: [], blocking: [agents.notFound(agent)] }
        : run(checkStoredRun(runId as RunId, runtime.bound))
    },
    grants: (filter) => run(store.grants(filter as GrantFilter | undefined)),
    revokeGrant: async (runId, grantId, options) => {
      requireKnown("revokeGrant", options, decideShape)
      return run(revokeGrant(runId as RunId, grantId as GrantId, options?.by ?? by))
    },
    exportRun: (runId) => run(exportRun(runId as RunId)),
    importRun: (archive) => run(importRun(archive)),
    remove: async (runId) => {
      await run(store.remove(runId as RunId))
      watching.poke(runId as RunId)
    },
    prune: async (given) => {
      requireKnown("prune", given, pruneShape)
      return run(store.prune(given))
    },
    close: () => work.close(background.close)
  }

  return { ...fermata, [Symbol.asyncDispose]: fermata.close }
}
