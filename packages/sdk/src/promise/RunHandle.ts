/**
 * Handles of background runs and conductors for programs that do not use Effect: the results of `dispatch`, `attach` and `conductor` of a
 * Fermata.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { Agent } from "../agent/AgentDefinition.ts"
import type { AgentHandle, HandleStatus, HandleUpdate, HandleSendOptions } from "../dispatch/AgentHandle.ts"
import type * as Conductor_ from "../dispatch/Conductor.ts"
import * as Joins from "../dispatch/Conductor.ts"
import { sendShape } from "../dispatch/internal/shapes.ts"
import type { Decision, DecisionInput } from "../domain/Decision.ts"
import type { RequestId } from "../domain/Id.ts"
import { type Kind, natural, required } from "../domain/internal/misfits.ts"
import { withoutUndefined } from "../domain/internal/untyped.ts"
import type { Interruption } from "../domain/Interruption.ts"
import type { Principal } from "../domain/Principal.ts"
import type { ReopenOptions } from "../domain/reopenInState.ts"
import type { Explanation } from "../durable/explain.ts"
import type { DecisionOnShown } from "../run/internal/decisions.ts"
import type { Prompt } from "../run/Mail.ts"
import type { RunResult } from "../run/RunResult.ts"
import { RunStoreError } from "../store/RunStoreError.ts"
import type { DecisionBody } from "./decisions.ts"
import { requireBody, shownIn } from "./internal/body.ts"
import { FermataClosed } from "./internal/FermataClosed.ts"
import { iterable } from "./internal/iterable.ts"
import type {
  Decidable,
  DecideOptions,
  DecisionOn,
  ConductorDispatchOptions,
  ReadOptions
} from "./internal/options.ts"
import {
  cancelNamedShape,
  cancelShape,
  decideShape,
  reopenShape,
  decisionOnShape,
  readShape,
  requireKnown
} from "./internal/shapes.ts"

export type {
  ConductorDispatchOptions,
  Decidable,
  DecisionOn,
  DispatchOptions,
  ReadOptions
} from "./internal/options.ts"

/**
 * The handle of a background run: observes, awaits, decides, reopens, messages, explains and cancels it. The run continues if the handle is
 * dropped.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunHandle<Output = unknown> {
  readonly runId: string
  readonly sessionId: string
  /** The name under which the run was dispatched, if any. */
  readonly name: string | undefined
  /** The current status of the run, as this process knows it. */
  readonly status: HandleStatus
  /** Iterates over the current status and its changes, until the last one. A slow reader misses all but the latest. */
  readonly statuses: (options?: ReadOptions) => AsyncIterable<HandleStatus>
  /** Returns the open requests of the run and its sub-agents. There may be some while other sub-agents are still running. */
  readonly interruptions: () => ReadonlyArray<Interruption>
  /**
   * Iterates over the updates of the run from its start until its end. A slow reader never delays the run: it receives a `skipped` update
   * with the number of the updates that it missed. Of a stored run, no event is missed; without a store, a late reader receives the latest
   * 64 events. Live text of a run that another process drives is included only if the store has a broadcast, as Postgres has. When the
   * Fermata is closed, the iteration ends or throws `FermataClosed`.
   */
  readonly events: (options?: ReadOptions) => AsyncIterable<HandleUpdate>
  /** Resolves to the result when the run is held or has ended. Rejects if the run has no result, such as with `RunSuspended`. */
  readonly wait: () => Promise<RunResult<Output>>
  /** Resolves to the result when the run has ended, regardless of how often it is held before. Rejects as `wait` does. */
  readonly done: () => Promise<RunResult<Output>>
  /**
   * Cancels the run and the runs under it, and resolves to its result when it has ended. A run that has already ended does not change. If a
   * stored run has failed, the cancellation is stored, and ends the run if it is resumed. Rejects with `RunStoreError` if the store is
   * locked or cannot be reached; the handle then continues to cancel the run, and `done` resolves at its end.
   */
  readonly cancel: (reason?: string) => Promise<RunResult<Output>>
  /**
   * Takes the decision on a request of the run; the first one counts. The run then continues, as far as its other open requests permit,
   * without a further call.
   */
  readonly decide: (request: Decidable, decision: DecisionBody, options?: DecideOptions) => Promise<Decision>
  /**
   * Reopens a denied request of the run: the run asks about the next equal call, and receives a message that says so. `by` is a person; the
   * model reads the `note`, too. Rejects with `RequestNotDenied` if no denial stands.
   */
  readonly reopen: (request: Decidable, options?: Pick<DecideOptions, "by" | "note">) => Promise<void>
  /**
   * Sends a message to the run. Resolves to the handle of the run that receives it: this one, or a fork of it (`whenHeld: "fork"`). The
   * default of `by` is the `by` of the Fermata.
   */
  readonly send: (prompt: Prompt, options?: HandleSendOptions) => Promise<RunHandle<Output>>
  /** Explains what the run does or waits for, and what resuming it would do. */
  readonly explain: () => Promise<Explanation>
}

/**
 * Owns background runs under one concurrency limit, shared budgets and one inbox. Disposing of it calls `drain`.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunConductor extends AsyncDisposable {
  /**
   * Runs a prompt in the background, in the store if the Fermata has one, as soon as there is a slot; `overflow` says what happens until
   * then. With a store, a queued run is stored, and no worker starts it; after a restart, `adopt` finds it. `agent` is an agent of the
   * Fermata, or its name or alias. Rejects with the errors of the Fermata's `dispatch`, and with `ConductorFull`, `ConductorClosed` and
   * `ConductorBudgetExceeded`.
   */
  readonly dispatch: <Output = unknown>(
    agent: string | Agent<never, Output>,
    prompt: Prompt,
    options?: ConductorDispatchOptions
  ) => Promise<RunHandle<Output>>
  /**
   * Takes over the stored runs of conductors of this name that have not ended, for example after a restart. Runs that had started continue
   * first. Queued runs start after them, when they get a slot. Runs above `maxRuns` are left as they are, with a warning in the log.
   * Resolves to the handles; without a store, to none.
   */
  readonly adopt: () => Promise<ReadonlyArray<RunHandle>>
  /** Returns the handles of the runs that have not ended, in the order in which the runs were dispatched; forks count as dispatched. */
  readonly handles: () => ReadonlyArray<RunHandle>
  /** Iterates over the updates of all runs from the first `next` on. A slow reader misses updates; a `skipped` update has their number. */
  readonly events: (options?: ReadOptions) => AsyncIterable<Conductor_.ConductorUpdate>
  /** Returns the open requests of all runs, oldest first. */
  readonly inbox: () => ReadonlyArray<Conductor_.InboxEntry>
  /** Iterates over the inbox: its current value, and its value after each change. */
  readonly inboxes: (options?: ReadOptions) => AsyncIterable<ReadonlyArray<Conductor_.InboxEntry>>
  /**
   * Takes the decision on a request of any of the runs; the first one counts. The run then continues, as far as its other open requests
   * permit, as soon as it has a slot.
   */
  readonly decide: (request: Decidable, decision: DecisionBody, options?: DecideOptions) => Promise<Decision>
  /**
   * Reopens a denied request of any of the runs, as the `reopen` of its handle does. Rejects with `RequestNotFound` if none of the runs that
   * have not ended has it.
   */
  readonly reopen: (request: Decidable, options?: Pick<DecideOptions, "by" | "note">) => Promise<void>
  /**
   * Cancels the runs with this name and those with names under it, such as `research/eu` under `research`. Resolves to their number when
   * they have ended.
   */
  readonly cancel: (name: string, reason?: string) => Promise<number>
  /** Returns what the runs that have ended consumed together, and what is reserved for those that have not. */
  readonly spending: () => Conductor_.Spending
  /**
   * Resolves when all runs have ended, to their results in the order of the handles. Rejects with the first error of a run that has no
   * result; the other runs continue.
   */
  readonly all: <Output>(
    handles: ReadonlyArray<RunHandle<Output>>
  ) => Promise<ReadonlyArray<RunResult<Output>>>
  /**
   * Resolves to the result of the first run that completes, after the others were cancelled. Held runs are waited for. Rejects with
   * `NoneSucceeded` if no run completes.
   */
  readonly firstSuccess: <Output>(handles: ReadonlyArray<RunHandle<Output>>) => Promise<Completed<Output>>
  /**
   * Iterates over the result of each run, once, in the order in which the runs end. Throws the first error of a run that has no result.
   */
  readonly asCompleted: <Output>(
    handles: ReadonlyArray<RunHandle<Output>>
  ) => AsyncIterable<RunResult<Output>>
  /**
   * Resolves to the results of the first `n` runs that complete, in the order in which they end, after the others were cancelled. Rejects
   * with `QuorumMissed` once `n` cannot complete; the others are cancelled then, too. Several handles of one run count as one run.
   */
  readonly quorum: <Output>(
    handles: ReadonlyArray<RunHandle<Output>>,
    n: number
  ) => Promise<ReadonlyArray<Completed<Output>>>
  /**
   * Takes no more runs and starts no further operation. Stored runs are suspended and stay in the store; without a store, the runs are
   * cancelled. Resolves, after at most `drainTimeout`, to the status of each run that had not ended.
   */
  readonly drain: () => Promise<ReadonlyArray<Conductor_.Drained>>
}

/** The result of a completed run. */
type Completed<Output> = Extract<RunResult<Output>, { readonly status: "completed" }>

/** Runs an effect as a promise, for a program that does not use Effect. The promise rejects with the error of the effect. */
export type Run = <A, E>(effect: Effect.Effect<A, E>) => Promise<A>

const inner = new WeakMap<RunHandle, AgentHandle<unknown, unknown>>()

const handleKind: Kind = {
  takes: "a handle, as dispatch and attach return it",
  is: (value) => typeof value === "object" && value !== null && inner.has(value as RunHandle)
}

/** Throws `OptionsInvalid` for values that are no handles. `of` is the name of the function that takes them. */
const innerOf = <Output>(
  of: string,
  handles: ReadonlyArray<RunHandle<Output>>
): ReadonlyArray<AgentHandle<Output, unknown>> => {
  requireKnown(of, { handles }, { keys: { handles: { each: handleKind, required: true } } })
  return handles.map((handle) => inner.get(handle) as AgentHandle<Output, unknown>)
}

const requestOf = (given: Decidable): string | Interruption => {
  // `undefined`, such as the first element of an empty list, is possible in programs without types. It is refused by the check of the id.
  const asked: Decidable = (given as Decidable | undefined) ?? ({} as Decidable)
  return typeof asked === "object" && "request" in asked ? asked.request : asked
}

/**
 * The id of the request that a caller gave, as a request or as an id. Any other value is returned as it is given or as `undefined`, and is
 * refused by the function that takes the id.
 */
export const requestIdOf = (given: Decidable): RequestId => {
  const request = requestOf(given)
  return (typeof request === "object" ? request?.requestId : request) as RequestId
}

/**
 * Makes a store's decision from the arguments of `decide`. The author is `otherwise` unless the options name one. Throws `OptionsInvalid`
 * for wrong options, and `DecisionMalformed` for a wrong decision or an incomplete request.
 */
export const decisionOf = (
  given: Decidable,
  body: DecisionBody,
  options: DecideOptions | undefined,
  otherwise: string | Principal
): DecisionInput => {
  requireKnown("decide", options, decideShape)
  const own = requireBody(body)
  const { by = otherwise, idempotencyKey, note } = options ?? {}
  const request = requestOf(given)
  const requestId = requestIdOf(given)
  return {
    ...own,
    requestId,
    by,
    ...withoutUndefined({ note, idempotencyKey, "~shown": shownIn(request) })
  } as DecisionOnShown
}

/**
 * Makes the options of a reopening from the argument of `reopen`. The author is `otherwise` unless the argument names one. Throws
 * `OptionsInvalid` for an unknown key or a value of the wrong type.
 */
export const reopeningOf = (
  options: Pick<DecideOptions, "by" | "note"> | undefined,
  otherwise: string | Principal
): ReopenOptions => {
  requireKnown("reopen", options, reopenShape)
  const { by = otherwise, note } = options ?? {}
  return { by, ...withoutUndefined({ note }) }
}

/** Makes a store's decision from one element of the argument of `decideAll`, as {@link decisionOf} does. */
export const decisionOn = (given: DecisionOn, otherwise: string | Principal): DecisionInput => {
  requireKnown("decideAll", given ?? null, decisionOnShape)
  const { decision, request, ...options } = given
  return decisionOf(request, decision, options, otherwise)
}

/** The parts of a Fermata that its handles use. */
export interface FermataAccess {
  readonly run: Run
  /** The author of decisions that name none. */
  readonly by: string | Principal
  readonly isClosed: () => boolean
}

/** Makes a `RunHandle` from an `AgentHandle`: its methods return promises and async iterables instead of effects and streams. */
export const fromHandle = <Output>(
  handle: AgentHandle<Output, unknown>,
  access: FermataAccess
): RunHandle<Output> => {
  const { by, isClosed, run } = access
  const facade: RunHandle<Output> = {
    runId: handle.runId,
    sessionId: handle.sessionId,
    name: handle.name,
    get status() {
      return handle.status.current()
    },
    statuses: (given) => iterable(handle.status.changes, reading("statuses", given)),
    interruptions: handle.interruptions,
    events: (given) =>
      iterable(whileOpen(handle.events, isClosed), { ahead: true, ...reading("events", given) }),
    wait: () => run(handle.wait),
    done: () => run(handle.done),
    cancel: async (reason) => {
      requireKnown("cancel", { reason }, cancelShape)
      return run(handle.cancel(reason))
    },
    decide: async (request, body, options) => run(handle.decide(decisionOf(request, body, options, by))),
    reopen: async (request, options) => run(handle.reopen(requestIdOf(request), reopeningOf(options, by))),
    send: async (prompt, options) => {
      requireKnown("send", options, sendShape)
      const read = await run(handle.send(prompt, { by, ...withoutUndefined(options ?? {}) }))
      return read === handle ? facade : fromHandle(read, access)
    },
    explain: () => run(handle.explain)
  }
  inner.set(facade, handle)
  return facade
}

/** The checked options of an iterable. */
const reading = (method: string, given: ReadOptions = {}): ReadOptions => {
  requireKnown(method, given, readShape)
  return given
}

/** Replaces errors of the store with `FermataClosed` once the Fermata, and its store with it, is closed. */
const whileOpen = (
  stream: AgentHandle<unknown, unknown>["events"],
  isClosed: () => boolean
): AgentHandle<unknown, unknown>["events"] =>
  Stream.mapError(stream, (error) =>
    error instanceof RunStoreError && isClosed() ? new FermataClosed() : error
  )

/** Makes a `RunConductor` from a `Conductor`: its methods return promises and async iterables instead of effects and streams. */
export const fromConductor = (options: {
  readonly conductor: Conductor_.Conductor
  readonly dispatch: RunConductor["dispatch"]
  readonly adopt: RunConductor["adopt"]
  readonly access: FermataAccess
  readonly close: () => Promise<void>
}): RunConductor => {
  const { adopt, close, conductor, dispatch, access } = options
  const { by, run } = access
  return {
    dispatch,
    adopt,
    handles: () => conductor.handles().map((handle) => fromHandle(handle, access)),
    events: (given) => iterable(conductor.events, { ahead: true, ...reading("events", given) }),
    inbox: conductor.inbox.current,
    inboxes: (given) => iterable(conductor.inbox.changes, reading("inboxes", given)),
    decide: async (request, body, options) => run(conductor.decide(decisionOf(request, body, options, by))),
    reopen: async (request, options) => run(conductor.reopen(requestIdOf(request), reopeningOf(options, by))),
    cancel: async (name, reason) => {
      requireKnown("cancel", { name, reason }, cancelNamedShape)
      return run(conductor.cancel(name, reason))
    },
    spending: conductor.spending,
    all: async (handles) => run(Joins.all(innerOf("all", handles))),
    firstSuccess: async (handles) => run(Joins.firstSuccess(innerOf("firstSuccess", handles))),
    asCompleted: (handles) => iterable(Joins.asCompleted(innerOf("asCompleted", handles))),
    quorum: async (handles, n) => {
      requireKnown("quorum", { n }, { keys: { n: required(natural) } })
      return run(Joins.quorum(innerOf("quorum", handles), n))
    },
    drain: () => run(conductor.drain),
    [Symbol.asyncDispose]: close
  }
}

/** Runs an effect that has to run while the Fermata is being closed, when `FermataAccess.run` already refuses effects. */
export const runWhileClosing: Run = async (effect) => {
  const exit = await Effect.runPromiseExit(effect)
  if (Exit.isSuccess(exit)) return exit.value
  throw Cause.squash(exit.cause)
}
