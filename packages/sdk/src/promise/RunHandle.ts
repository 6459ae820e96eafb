/**
 * A run in the background, and many of them under one hand, for programs that do not use Effect: what `dispatch`, `attach` and
 * `conductor` of a Fermata return.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { AgentHandle, HandleStatus, HandleUpdate, HandleSendOptions } from "../dispatch/AgentHandle.ts"
import type * as Conductor_ from "../dispatch/Conductor.ts"
import * as Joins from "../dispatch/Conductor.ts"
import { sendShape } from "../dispatch/internal/shapes.ts"
import type { Decision, DecisionInput } from "../domain/Decision.ts"
import type { RequestId } from "../domain/Id.ts"
import { withoutUndefined } from "../domain/internal/untyped.ts"
import type { Interruption } from "../domain/Interruption.ts"
import type { Principal } from "../domain/Principal.ts"
import type { Explanation } from "../durable/explain.ts"
import type { Prompt } from "../run/Mail.ts"
import type { RunResult } from "../run/RunResult.ts"
import { RunStoreError } from "../store/RunStoreError.ts"
import type { DecisionBody } from "./decisions.ts"
import { requireBody } from "./internal/body.ts"
import { FermataClosed } from "./internal/FermataClosed.ts"
import { iterable } from "./internal/iterable.ts"
import type { Decidable, DecideOptions, DecisionOn, ConductorDispatchOptions } from "./internal/options.ts"
import { decideShape, decisionOnShape, requireKnown } from "./internal/shapes.ts"

export type { ConductorDispatchOptions, Decidable, DecisionOn, DispatchOptions } from "./internal/options.ts"

/**
 * A run in the background.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunHandle<Output = unknown> {
  readonly runId: string
  readonly sessionId: string
  /** What its conductor calls it. */
  readonly name: string | undefined
  /** How the run stands now. */
  readonly status: HandleStatus
  /** How the run stands, and then every change, until there can be none. */
  readonly statuses: () => AsyncIterable<HandleStatus>
  /** What waits for a decision, in the run and its sub-agents, also while others of them are at work. */
  readonly interruptions: () => ReadonlyArray<Interruption>
  /** Everything that happens in the run, from its beginning, until it is over. A slow reader never holds up the run. */
  readonly events: () => AsyncIterable<HandleUpdate>
  /** Waits until the run is held or over. */
  readonly wait: () => Promise<RunResult<Output>>
  /** Waits until the run is over, through every hold. */
  readonly done: () => Promise<RunResult<Output>>
  /** Ends the run with everything under it, and resolves when it is over. A run that was over stays as it was. */
  readonly cancel: (reason?: string) => Promise<RunResult<Output>>
  /** Decides a request of the run, once. The run goes on by itself. */
  readonly decide: (request: Decidable, decision: DecisionBody, options?: DecideOptions) => Promise<Decision>
  /** Says something to the run, at work or held. Resolves to the run that reads it: this one, or a fork of it. */
  readonly send: (prompt: Prompt, options?: HandleSendOptions) => Promise<RunHandle<Output>>
  /** What the run does or waits for, in words, and what resuming it would do. */
  readonly explain: () => Promise<Explanation>
}

/**
 * Many runs under one hand: so many at a time, within one budget, with one inbox.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunConductor extends AsyncDisposable {
  /** Runs a prompt in the background, stored, as soon as there is a slot. */
  readonly dispatch: <Output = unknown>(
    agent: string,
    prompt: Prompt,
    options?: ConductorDispatchOptions
  ) => Promise<RunHandle<Output>>
  /** The runs that are not over, in the order in which they were dispatched. */
  readonly handles: () => ReadonlyArray<RunHandle>
  /** What happens in the runs from when it is read. A slow reader misses updates; `skipped` says how many. */
  readonly events: () => AsyncIterable<Conductor_.ConductorUpdate>
  /** Everything that waits for a decision now, in all runs. */
  readonly inbox: () => ReadonlyArray<Conductor_.InboxEntry>
  /** The same, now and after every change. */
  readonly inboxes: () => AsyncIterable<ReadonlyArray<Conductor_.InboxEntry>>
  /** Decides a request, in whichever run it is. */
  readonly decide: (request: Decidable, decision: DecisionBody, options?: DecideOptions) => Promise<Decision>
  /** Cancels the runs of a name, and those whose names lie under it. Resolves to how many. */
  readonly cancel: (name: string, reason?: string) => Promise<number>
  /** What the runs have consumed together, and what is set aside for those that have not ended. */
  readonly spending: () => Conductor_.Spending
  /** How each run ended, in the order of the handles. */
  readonly all: <Output>(
    handles: ReadonlyArray<RunHandle<Output>>
  ) => Promise<ReadonlyArray<RunResult<Output>>>
  /** The first that completes; the others are cancelled. Rejects with `NoneSucceeded`. */
  readonly firstSuccess: <Output>(handles: ReadonlyArray<RunHandle<Output>>) => Promise<Completed<Output>>
  /** How each run ended, in the order in which they end. */
  readonly asCompleted: <Output>(
    handles: ReadonlyArray<RunHandle<Output>>
  ) => AsyncIterable<RunResult<Output>>
  /** The first `n` that complete; the others are cancelled. Rejects with `QuorumMissed` as soon as there cannot be as many. */
  readonly quorum: <Output>(
    handles: ReadonlyArray<RunHandle<Output>>,
    n: number
  ) => Promise<ReadonlyArray<Completed<Output>>>
  /** Begins no more turns and suspends the runs, which stay in the store. Resolves to what became of each. */
  readonly drain: () => Promise<ReadonlyArray<Conductor_.Drained>>
}

/** A run that has completed. */
type Completed<Output> = Extract<RunResult<Output>, { readonly status: "completed" }>

/** Runs an effect for a program that does not use Effect. */
export type Run = <A, E>(effect: Effect.Effect<A, E>) => Promise<A>

const inner = new WeakMap<RunHandle, AgentHandle<unknown, unknown>>()

const innerOf = <Output>(handle: RunHandle<Output>): AgentHandle<Output, unknown> => {
  const found = inner.get(handle) as AgentHandle<Output, unknown> | undefined
  if (found === undefined) throw new TypeError("This is not a handle of a Fermata.")
  return found
}

/** A decision as the store takes it. Throws what is wrong with the keys of what it is made of. */
export const decisionOf = (
  given: Decidable,
  body: DecisionBody,
  options: DecideOptions | undefined,
  otherwise: string | Principal
): DecisionInput => {
  requireKnown("decide", options, decideShape)
  const own = requireBody(body)
  const { by = otherwise, idempotencyKey, note } = options ?? {}
  // The first request of a list that is empty, in a program that does not check its types: refused as malformed.
  const asked: Decidable = (given as Decidable | undefined) ?? ({} as Decidable)
  const request = typeof asked === "object" && "request" in asked ? asked.request : asked
  // What is neither is refused where all decisions are looked at.
  const requestId = (typeof request === "object" ? request?.requestId : request) as RequestId
  const digest = typeof request === "object" && request?._tag === "approval" ? { digest: request.digest } : {}
  return {
    ...own,
    requestId,
    by,
    ...digest,
    ...withoutUndefined({ note, idempotencyKey })
  } as DecisionInput
}

/** The same of one of several. */
export const decisionOn = (given: DecisionOn, otherwise: string | Principal): DecisionInput => {
  requireKnown("decideAll", given ?? null, decisionOnShape)
  const { decision, request, ...options } = given
  return decisionOf(request, decision, options, otherwise)
}

/** The Fermata of a handle. */
export interface Owner {
  readonly run: Run
  /** Decides where a decision does not say who does. */
  readonly by: string | Principal
  readonly isClosed: () => boolean
}

/** A handle for programs that do not use Effect. */
export const fromHandle = <Output>(handle: AgentHandle<Output, unknown>, owner: Owner): RunHandle<Output> => {
  const { by, isClosed, run } = owner
  const facade: RunHandle<Output> = {
    runId: handle.runId,
    sessionId: handle.sessionId,
    name: handle.name,
    get status() {
      return handle.status.current()
    },
    statuses: () => iterable(handle.status.changes),
    interruptions: handle.interruptions,
    events: () => iterable(whileOpen(handle.events, isClosed), { ahead: true }),
    wait: () => run(handle.wait),
    done: () => run(handle.done),
    cancel: (reason) => run(handle.cancel(reason)),
    decide: async (request, body, options) => run(handle.decide(decisionOf(request, body, options, by))),
    send: async (prompt, options) => {
      requireKnown("send", options, sendShape)
      const read = await run(handle.send(prompt, { by, ...options }))
      return read === handle ? facade : fromHandle(read, owner)
    },
    explain: () => run(handle.explain)
  }
  inner.set(facade, handle)
  return facade
}

/** The same stream, which says that its Fermata was closed where the store is gone with it. */
const whileOpen = (
  stream: AgentHandle<unknown, unknown>["events"],
  isClosed: () => boolean
): AgentHandle<unknown, unknown>["events"] =>
  Stream.mapError(stream, (error) =>
    error instanceof RunStoreError && isClosed() ? new FermataClosed() : error
  )

/** A conductor for programs that do not use Effect. */
export const fromConductor = (options: {
  readonly conductor: Conductor_.Conductor
  readonly dispatch: RunConductor["dispatch"]
  readonly owner: Owner
  readonly close: () => Promise<void>
}): RunConductor => {
  const { close, conductor, dispatch, owner } = options
  const { by, run } = owner
  return {
    dispatch,
    handles: () => conductor.handles().map((handle) => fromHandle(handle, owner)),
    events: () => iterable(conductor.events, { ahead: true }),
    inbox: conductor.inbox.current,
    inboxes: () => iterable(conductor.inbox.changes),
    decide: async (request, body, options) => run(conductor.decide(decisionOf(request, body, options, by))),
    cancel: (name, reason) => run(conductor.cancel(name, reason)),
    spending: conductor.spending,
    all: (handles) => run(Joins.all(handles.map(innerOf))),
    firstSuccess: (handles) => run(Joins.firstSuccess(handles.map(innerOf))),
    asCompleted: (handles) => iterable(Joins.asCompleted(handles.map(innerOf))),
    quorum: (handles, n) => run(Joins.quorum(handles.map(innerOf), n)),
    drain: () => run(conductor.drain),
    [Symbol.asyncDispose]: close
  }
}

/** Runs what must not be refused by a program that is being closed. */
export const runWhileClosing: Run = async (effect) => {
  const exit = await Effect.runPromiseExit(effect)
  if (Exit.isSuccess(exit)) return exit.value
  throw Cause.squash(exit.cause)
}
