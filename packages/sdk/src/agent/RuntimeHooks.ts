/**
 * Hooks: callbacks that observe the runs of a runtime, for metrics, logs and progress.
 *
 * {@link observe} derives the calls of hooks from the updates of a run. No hook is called for the parts of a streamed response, or for the
 * progress and output of a tool. A failing hook does not fail the run; the first failure of each hook in a drive is logged.
 *
 * @since 0.1.0
 */
import { evolve } from "../domain/evolve.ts"
import * as History from "../domain/History.ts"
import type { RunId, Timestamp, ToolCallId } from "../domain/Id.ts"
import { callable, shapeOf } from "../domain/internal/misfits.ts"
import type { ToolOutcome } from "../domain/Message.ts"
import { problemOf } from "../domain/OptionsInvalid.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { RunState, ToolCall } from "../domain/RunState.ts"
import { findCall, findChild, isEnded, isSettled } from "../domain/RunState.ts"
import type { Services } from "../tool/Tool.ts"
import { causeOf } from "./internal/causes.ts"
import type {
  ModelCallNotice,
  Notice,
  ReconfiguredNotice,
  RequestNotice,
  RunEndNotice,
  ToolCallNotice,
  TurnNotice
} from "./internal/notices.ts"
import { callHook } from "./internal/userCode.ts"
import type { RunUpdate } from "./RunUpdate.ts"

export type {
  Configuration,
  ModelCallNotice,
  ReconfiguredNotice,
  RequestNotice,
  RunEndNotice,
  ToolCallNotice,
  TurnNotice
} from "./internal/notices.ts"

/**
 * Callbacks that observe the runs that a runtime drives. A hook may return a promise or an effect, which the run does not wait for. An
 * effect runs in the context of the run with the services of the runtime. A failure does not affect the run; the first one of each hook in
 * a drive is logged.
 */
export interface RuntimeHooks {
  /**
   * Called when a turn of a run has ended. The runtime can be reconfigured here if no run is in the middle of a turn. The turn of a
   * sub-agent's run ends in the middle of a turn of its lead.
   */
  readonly onTurn?: (turn: TurnNotice) => unknown
  /** Called when a model call was answered, has failed its run, is about to be retried, or is repeated without streaming. */
  readonly onModelCall?: (call: ModelCallNotice) => unknown
  /** Called when a call starts and when it has its result. */
  readonly onToolCall?: (call: ToolCallNotice) => unknown
  /** Called when a request is opened, decided, superseded or about to expire. */
  readonly onRequest?: (request: RequestNotice) => unknown
  /** Called when a run, or a sub-agent's run, has ended. A held run has not ended. */
  readonly onRunEnd?: (end: RunEndNotice) => unknown
  /** Called when the runtime was reconfigured. */
  readonly onReconfigured?: (change: ReconfiguredNotice) => unknown
}

/** The services that the effects returned by hooks need. */
export type HookServices<Hooks> = {
  [Name in keyof Hooks]-?: Hooks[Name] extends ((value: never) => infer Out) | undefined
    ? Services<Out>
    : never
}[keyof Hooks]

/** Calls a hook. `name` is its key in {@link RuntimeHooks}, for spans and logs. */
export type CallHook = (name: string, hook: ((value: never) => unknown) | undefined, value: object) => void

/** Calls the hook of this name with a notice. */
type Call = <Name extends keyof RuntimeHooks>(
  name: Name,
  value: Parameters<NonNullable<RuntimeHooks[Name]>>[0]
) => void

/**
 * Makes an `onUpdate` function that calls hooks for the updates of one run. It never calls `onReconfigured`, which is about a runtime. Throws
 * `OptionsInvalid` for an unknown hook, and names the nearest one, and for a hook that is no function.
 *
 * **When to use**
 *
 * To observe a single run, or a run of a runtime without hooks. The option `hooks` of `createRuntime` observes all runs of a runtime.
 *
 * **Details**
 *
 * `before` is the state from which a run is continued; the observer finds calls and requests in it. Without `before`, a run that is
 * continued is not observed, except for retries and fallbacks of its model calls; a run that starts under the observer is.
 *
 * **Example** (Logging what tools do)
 *
 * ```ts run
 * import { Agent, Runtime, RuntimeHooks, runPrompt, Tool } from "@fermata/sdk"
 * import { ScriptedModel } from "@fermata/sdk/testing"
 * import { Effect } from "effect"
 *
 * const ping = Tool.make("ping", { safety: "readOnly", handler: () => "up" })
 * const onUpdate = RuntimeHooks.observe({ onToolCall: ({ tool, status }) => console.log(tool, status) })
 * const program = Effect.gen(function* () {
 *   const runtime = yield* Runtime.make({ agent: Agent.make("ops", { tools: [ping] }) })
 *   return yield* runPrompt(runtime, { prompt: "Is it up?" }, { onUpdate })
 * })
 * const model = ScriptedModel.make([{ calls: [{ tool: "ping" }] }, "It is."]).layer
 * await Effect.runPromise(Effect.provide(program, model)) // ping started, ping completed
 * ```
 */
export const observe = (
  hooks: RuntimeHooks,
  before?: RunState,
  /** How a hook is called. Default: without services. */
  call?: CallHook
): ((update: RunUpdate) => void) => {
  const problem = problemOf("RuntimeHooks.observe", ownOf(hooks), shape)
  if (problem !== undefined) throw problem
  return observer(hooks, before, call)
}

const shape = shapeOf<RuntimeHooks>({
  onTurn: callable,
  onModelCall: callable,
  onToolCall: callable,
  onRequest: callable,
  onRunEnd: callable,
  onReconfigured: callable
})

/** The own fields of hooks, which may be an instance of a class. */
const ownOf = (hooks: unknown): unknown =>
  typeof hooks === "object" && hooks !== null ? { ...hooks } : (hooks ?? null)

const observer = (hooks: RuntimeHooks, before: RunState | undefined, call: CallHook = callHook()) => {
  const notifyHook: Call = (name, value) => call(name, hooks[name], value)
  let state = before
  const lastAt = new Map<RunId, Timestamp>()
  const fold = (run: RunState | undefined, event: RunEvent): RunState => {
    if (event._tag === "child.advanced") {
      const child = run === undefined ? undefined : findChild(run, event.callId)
      // Events of a sub-agent that has already ended and left the state are ignored.
      if (child !== undefined || event.event._tag === "run.started") fold(child, event.event)
    }
    const after = evolve(run, event)
    callHooks(notifyHook, { before: run, after, event, since: lastAt.get(after.runId) })
    if (isEnded(after)) lastAt.delete(after.runId)
    else lastAt.set(after.runId, event.at)
    return after
  }
  return (update: RunUpdate): void => {
    switch (update._tag) {
      case "event": {
        const isFirst = update.event._tag === "run.started"
        const isNext = update.runId === state?.runId && update.revision === state.revision + 1
        if (isFirst || isNext) state = fold(isFirst ? undefined : state, update.event)
        return
      }
      case "retry": {
        const { _tag: status, ...call } = update
        return notifyHook("onModelCall", { status, ...call })
      }
      case "fallback": {
        const { _tag: status, ...call } = update
        return notifyHook("onModelCall", { status, ...call })
      }
    }
  }
}

/** Returns an `onUpdate` that calls the hooks first; the given `onUpdate` if no hook observes runs. */
export const observed = (
  hooks: RuntimeHooks | undefined,
  onUpdate: ((update: RunUpdate) => void) | undefined,
  before?: RunState,
  call?: CallHook
): ((update: RunUpdate) => void) | undefined => {
  if (hooks === undefined) return onUpdate
  const { onModelCall, onRequest, onRunEnd, onToolCall, onTurn } = hooks
  if ((onTurn ?? onModelCall ?? onToolCall ?? onRequest ?? onRunEnd) === undefined) return onUpdate
  const calling = observer(hooks, before, call)
  if (onUpdate === undefined) return calling
  return (update) => {
    calling(update)
    return onUpdate(update)
  }
}

/** One event of one run of the tree, with the state of that run before and after it. */
interface Change {
  readonly before: RunState | undefined
  readonly after: RunState
  readonly event: RunEvent
  /** The time of the run's previous event. */
  readonly since: Timestamp | undefined
}

const callHooks = (notifyHook: Call, change: Change): void => {
  const { after, before, event, since } = change
  const { agentPath, runId, sessionId } = after
  const whose = { runId, sessionId, agentPath, at: event.at }
  const turn = after.usage.turns
  switch (event._tag) {
    case "model.answered": {
      const { finishReason, profile, usage } = event
      notifyHook("onModelCall", {
        ...whose,
        status: "answered",
        turn,
        usage,
        finishReason,
        ...(profile === undefined ? {} : { profile }),
        ...(since === undefined ? {} : { ms: event.at - since })
      })
      break
    }
    case "run.failed":
      if (event.failure._tag === "ModelFailed") {
        const { reason } = event.failure
        notifyHook("onModelCall", { ...whose, status: "failed", turn: turn + 1, reason })
      }
      break
  }
  notifyRequest(notifyHook, change, whose)
  const settled = notifyCalls(notifyHook, change, whose)
  const wasOpen = event._tag === "model.answered" || (before !== undefined && before.calls.length > 0)
  if (wasOpen && after.calls.length === 0) {
    notifyHook("onTurn", { ...whose, turn, calls: settled, usage: after.usage })
  }
  notifyEnd(notifyHook, change, whose)
}

/** Notifies the start and the result of calls. Returns all calls of the turn when it has ended. */
const notifyCalls = (
  notifyHook: Call,
  { after, before, event }: Change,
  whose: Notice
): TurnNotice["calls"] => {
  if (before === undefined || before.calls.length === 0) return []
  const outcomes = after.calls.length === 0 ? outcomesIn(before, after) : undefined
  const all: Array<TurnNotice["calls"][number]> = []
  for (const call of before.calls) {
    const { id: callId, name: tool } = call
    const now = findCall(after, callId)
    const outcome = now === undefined ? outcomes?.get(callId) : now.result?.outcome
    if (outcome !== undefined) all.push({ callId, tool, outcome })
    const of = { ...whose, callId, tool }
    if (isSettled(call)) continue
    if (outcome !== undefined) {
      const cause = "callId" in event && event.callId === callId ? causeOf(event) : undefined
      notifyHook("onToolCall", {
        ...of,
        status: outcome,
        attempt: call.attempt,
        ...elapsed(call, event.at),
        ...(cause === undefined ? {} : { cause })
      })
    } else if (now?.status === "started" && now.attempt > call.attempt) {
      notifyHook("onToolCall", { ...of, status: "started", attempt: now.attempt })
    }
  }
  return all
}

const elapsed = ({ attempt, startedAt }: ToolCall, at: Timestamp): { readonly ms?: number } =>
  attempt === 0 || startedAt === undefined ? {} : { ms: at - startedAt }

/** The outcomes of the calls of a turn that has ended, from the messages that it added to the history. */
const outcomesIn = (before: RunState, after: RunState): ReadonlyMap<ToolCallId, ToolOutcome> => {
  const outcomes = new Map<ToolCallId, ToolOutcome>()
  const { chunks, tail } = after.history
  const inChunks = chunks.length * History.chunkSize
  for (let index = History.size(before.history); index < inChunks + tail.length; index++) {
    const message =
      index < inChunks
        ? chunks[Math.floor(index / History.chunkSize)]?.[index % History.chunkSize]
        : tail[index - inChunks]
    if (message?.role === "tool") outcomes.set(message.callId, message.outcome)
  }
  return outcomes
}

const notifyRequest = (notifyHook: Call, { before, event }: Change, whose: Notice): void => {
  const find = (requestId: string) =>
    before?.requests.find(({ request }) => request.requestId === requestId)?.request
  switch (event._tag) {
    case "request.opened":
      return notifyHook("onRequest", { ...whose, status: "opened", request: event.request })
    case "request.decided": {
      const { decision } = event
      const request = find(decision.requestId)
      if (request !== undefined) notifyHook("onRequest", { ...whose, status: "decided", request, decision })
      return
    }
    case "request.superseded":
    case "request.expiring": {
      const request = find(event.requestId)
      const status = event._tag === "request.superseded" ? "superseded" : "expiring"
      if (request !== undefined) notifyHook("onRequest", { ...whose, status, request })
    }
  }
}

const notifyEnd = (notifyHook: Call, { after, event }: Change, whose: Notice): void => {
  const { usage } = after
  switch (event._tag) {
    case "run.completed":
      return notifyHook("onRunEnd", { ...whose, status: "completed", usage })
    case "run.cancelled":
      return notifyHook("onRunEnd", { ...whose, status: "cancelled", usage, reason: event.reason })
    case "run.failed":
      return notifyHook("onRunEnd", { ...whose, status: "error", usage, failure: event.failure })
  }
}

/** @deprecated Use {@link TurnNotice}. */
export type TurnTold = TurnNotice

/** @deprecated Use {@link ModelCallNotice}. */
export type ModelCallTold = ModelCallNotice

/** @deprecated Use {@link ToolCallNotice}. */
export type ToolCallTold = ToolCallNotice

/** @deprecated Use {@link RequestNotice}. */
export type RequestTold = RequestNotice

/** @deprecated Use {@link RunEndNotice}. */
export type RunEndTold = RunEndNotice

/** @deprecated Use {@link ReconfiguredNotice}. */
export type ReconfiguredTold = ReconfiguredNotice
