/**
 * `evolve(state, event)` folds an event: it computes the state after the event.
 *
 * It is pure, and total over the events that a run can produce. Folding any prefix of a journal gives the state that the run had in
 * memory at that revision. Results of parallel calls may arrive in any order and give the same state, because they move into the
 * history together, in call order, when the last call of the turn is settled.
 *
 * @since 0.1.0
 */
import { isWrappingUp } from "./Budget.ts"
import * as Grant from "./Grant.ts"
import * as History from "./History.ts"
import type { Revision } from "./Id.ts"
import * as Id from "./Id.ts"
import { bookTurn, bookUsage } from "./internal/bookUsage.ts"
import { policyChanged } from "./internal/changedPolicy.ts"
import { childAdvanced, closeBackground, keepStarterPolicies } from "./internal/children.ts"
import {
  answeredAgain,
  compacted,
  pruned,
  requested as compactionRequested,
  setPin,
  skipped
} from "./internal/compacting.ts"
import { appendCut } from "./internal/cutAnswer.ts"
import { decided, supersede, superseded } from "./internal/decided.ts"
import { defined } from "./internal/defined.ts"
import { reopened } from "./internal/denials.ts"
import { sameJson } from "./internal/json.ts"
import { exhausted, limitsChanged, wrapUpAsked } from "./internal/limitChanges.ts"
import { endsWithPrompt } from "./internal/repeatedPrompt.ts"
import { onlyTakesReports } from "./internal/reports.ts"
import {
  appendQueued,
  appendUser,
  closeCalls,
  closeRequest,
  deliverQueued,
  deliverMessage,
  settle,
  updateCall,
  updateRequest,
  type Event
} from "./internal/turn.ts"
import { withUntrusted } from "./internal/untrusted.ts"
import { inTree, paused, resumed } from "./internal/workTime.ts"
import { callIdOf } from "./Interruption.ts"
import type { AssistantPart } from "./Message.ts"
import { text, textOf } from "./Message.ts"
import { type AnsweredPart, type RunEvent, unwrap } from "./RunEvent.ts"
import type { RequestRecord, RunState, ToolCall } from "./RunState.ts"
import * as RunState_ from "./RunState.ts"
import * as Usage from "./Usage.ts"

/**
 * Computes the state after an event. Pass `undefined` as the state before a session's first run.
 *
 * Throws an `Error` if a journal does not begin with `run.started`.
 */
export const evolve = (state: RunState | undefined, event: RunEvent): RunState => {
  if (event._tag === "run.started") return started(state, event)
  if (state === undefined) throw new Error(`A journal begins with run.started, not with ${event._tag}.`)
  const after = supersede(apply(state, event), event)
  const revision = (state.revision + 1) as Revision
  // An event that changes nothing is not progress.
  if (after === state) return { ...state, revision }
  if (after.recoveries !== undefined && isProgress(event)) {
    const { recoveries: _, ...rest } = after
    return { ...rest, revision }
  }
  // The new state is not shared yet, so it is changed in place instead of copied again.
  ;(after as { revision: Revision }).revision = revision
  return after
}

/** Whether an event is progress, which resets `recoveries`. Events that only record an attempt are not. */
const isProgress = (event: RunEvent): boolean => {
  const { event: inner, path } = unwrap(event)
  switch (inner._tag) {
    // A sub-agent is held and resumed with its root, which is no progress of its own.
    case "run.held":
    case "run.resumed":
      return path.length === 0
    case "run.recovered":
    case "run.restored":
    case "model.charged":
    case "tool.classified":
    case "tool.started":
    case "tool.notStarted":
    case "sandbox.opened":
    case "plan.updated":
    case "request.expiring":
    case "budget.nearing":
    case "budget.exhausted":
    case "messages.read":
    case "message.queued":
    case "limits.changed":
    case "compaction.requested":
    case "compaction.skipped":
    case "context.pruned":
    case "memory.retrieved":
    case "message.pinned":
    case "message.unpinned":
    case "policy.changed":
    case "session.renamed":
      return false
    default:
      return true
  }
}

/** Computes the state after a list of events. */
export const evolveAll = (
  state: RunState | undefined,
  events: ReadonlyArray<RunEvent>
): RunState | undefined => {
  let current = state
  for (let index = 0; index < events.length; index += 1) {
    const event = events[index]!
    // The next run of a session inherits only messages, grants and usage, so the previous run's completion need not be folded.
    const isPast = event._tag === "run.completed" && events[index + 1]?._tag === "run.started"
    if (!isPast || current === undefined) current = evolve(current, event)
  }
  return current
}

const apply = (state: RunState, event: Exclude<RunEvent, Event<"run.started">>): RunState => {
  switch (event._tag) {
    case "model.answered":
      return answered(state, event)
    case "model.charged":
      return bookUsage(state, event.usage)
    case "tool.classified":
      return classified(state, event)
    case "tool.started":
      return toolStarted(state, event)
    case "tool.notStarted":
      return updateCall(state, event.callId, notStarted)
    case "sandbox.opened":
      return { ...state, sandbox: event.sandbox }
    case "tool.completed":
      return settle(state, event.callId, "completed", event.content, event.at, event.untrusted)
    case "tool.failed":
      return settle(state, event.callId, "failed", event.content, event.at, event.untrusted)
    case "tool.denied":
      return settle(state, event.callId, "denied", event.content, event.at)
    case "plan.updated":
      return planned(state, event)
    case "request.opened":
      return opened(state, event)
    case "request.decided":
      return decided(state, event)
    case "request.superseded":
      return superseded(state, event)
    case "request.expiring":
      return updateRequest(state, event.requestId, (record) => ({ ...record, warnedAt: event.at }))
    case "grant.revoked":
      return {
        ...state,
        grants: state.grants.map((grant) =>
          grant.id === event.grantId && grant.revoked === undefined ? Grant.revoke(grant, event) : grant
        )
      }
    case "message.queued":
      return event.content.length === 0
        ? state
        : deliverMessage(reopened(state, event.reopens), event.content, event.at)
    case "messages.read":
      return deliverQueued(state)
    case "budget.nearing":
      return { ...state, warned: [...(state.warned ?? []), event.budget] }
    case "budget.exhausted":
      return exhausted(state, event)
    case "wrapUp.asked":
      return wrapUpAsked(state, event)
    case "compaction.requested":
      return compactionRequested(state, event)
    case "compaction.skipped":
      return skipped(state)
    case "context.pruned":
      return pruned(state, event)
    case "context.compacted":
      return compacted(state, event)
    case "memory.retrieved":
      return retrieved(state, event)
    case "message.pinned":
      return setPin(state, event.sequence, true)
    case "message.unpinned":
      return setPin(state, event.sequence, false)
    case "agent.changed": {
      const { agent, otherPolicies, policy, structured } = event
      const agentPath = [...state.agentPath.slice(0, -1), agent.name]
      const under = state.under ?? state.agent.name
      const { otherPolicies: _, ...rest } = state
      const after = { ...rest, agent, agentPath, under, policy, structured, ...defined({ otherPolicies }) }
      return keepStarterPolicies(after, RunState_.policiesOf(state))
    }
    case "output.rejected":
      return appendUser(state, [text(event.message)], event.at, "runtime")
    case "limits.changed":
      return limitsChanged(state, event)
    case "policy.changed":
      return policyChanged(state, event)
    case "session.renamed":
      return { ...state, title: event.title }
    case "run.held":
      return {
        ...paused(deliverQueued(state), event.at),
        status: "held",
        ...(event.awaitsSlot === true ? { awaitsSlot: true } : {})
      }
    case "run.recovered":
      return { ...resumed(state, event.at), recoveries: (state.recoveries ?? 0) + 1 }
    case "run.restored":
      // The run and its sub-agents may repeat calls that the restored store has lost.
      return inTree(state, (run) => ({ ...run, mayRepeat: { since: event.since } }))
    case "run.resumed": {
      const { awaitsSlot: _slot, failure: _, ...rest } = resumed(deliverQueued(state), event.at)
      return { ...rest, status: "running" }
    }
    case "run.completed":
      return {
        ...paused(state, event.at),
        status: "completed",
        ...defined({ output: event.output })
      }
    case "run.cancelled":
      return cancelled(state, event)
    case "run.failed":
      return { ...paused(deliverQueued(state), event.at), status: "error", failure: event.failure }
    case "child.advanced":
      return childAdvanced(state, event, evolve)
  }
}

const classified = (state: RunState, event: Event<"tool.classified">): RunState =>
  updateCall(state, event.callId, (call) => {
    if (RunState_.isSettled(call)) return call
    const { arguments: args, grantId, idempotent, rendering, safety, schema, target, tool, value } = event
    const status = event.allowedBy === undefined ? call.status : "ready"
    const after: Mutable<ToolCall> = {
      ...withoutClassification(call),
      target,
      safety,
      idempotent,
      arguments: args,
      status
    }
    if (value !== undefined) after.value = value
    // The call no longer has the arguments of the edit.
    if (after.edited !== undefined && !sameJson(value ?? args, call.value ?? call.arguments))
      delete after.edited
    if (rendering !== undefined) after.rendering = rendering
    if (tool !== undefined) after.tool = tool
    if (schema !== undefined) after.schema = schema
    if (grantId !== undefined) after.grantId = grantId
    return after
  })

type Mutable<A> = { -readonly [K in keyof A]: A[K] }

const toolStarted = (state: RunState, { at, callId }: Event<"tool.started">): RunState =>
  updateCall(state, callId, (call) =>
    RunState_.isSettled(call)
      ? call
      : { ...call, status: "started", attempt: call.attempt + 1, startedAt: at }
  )

/** Shared by all states, because most waiting runs have several empty lists. */
const none: ReadonlyArray<never> = []

const started = (before: RunState | undefined, event: Event<"run.started">): RunState => {
  // A run starts from a valid history: calls that a failed run left open get placeholder results here.
  const previous =
    before === undefined ? undefined : deliverQueued(closeCalls(before, [], event.at, event.notRun))
  const history = previous?.history ?? History.empty
  const { conductor, mayRepeat, otherPolicies, parent, startedWith } = event
  const under = event.under ?? (event.agentPath.length > 1 ? event.agentPath.at(-1) : undefined)
  const repeats = event.repeats === true && endsWithPrompt(history, event.prompt)
  const promptAt = History.size(history) - (repeats ? 1 : 0)
  return {
    version: RunState_.version,
    runId: event.runId,
    sessionId: event.sessionId,
    agent: event.agent,
    agentPath: event.agentPath,
    status: "running",
    revision: 1 as Revision,
    startedAt: event.at,
    workingSince: event.at,
    history: repeats
      ? history
      : History.append(history, {
          role: "user",
          sequence: History.size(history),
          at: event.at,
          content: event.prompt
        }),
    ...(promptAt === 0 ? {} : { promptAt }),
    limits: event.limits,
    policy: event.policy,
    ...defined({
      under,
      parent,
      conductor,
      otherPolicies,
      startedWith,
      mayRepeat,
      title: previous?.title,
      sandbox: previous?.sandbox,
      compaction: previous?.compaction,
      pinned: previous?.pinned,
      untrusted: previous?.untrusted,
      plan: previous?.plan
    }),
    ...(event.defaultTurns === true ? { reportTurns: 0 } : {}),
    asks: event.asks,
    structured: event.structured,
    requests: none,
    grants: previous?.grants.filter((grant) => grant.scope === "session") ?? none,
    queued: none,
    toolCalls: 0,
    usage: Usage.zero,
    sessionUsage: previous?.sessionUsage ?? Usage.zero,
    calls: none
  }
}

/** Removes what an earlier classification set. Most calls have none, and a rest pattern copies the other fields one by one. */
const withoutClassification = (call: ToolCall): ToolCall => {
  if (call.arguments === undefined) return call
  const {
    grantId: _grant,
    rendering: _rendering,
    requestId: _request,
    schema: _schema,
    tool: _tool,
    value: _value,
    ...rest
  } = call
  return rest
}

const answered = (state: RunState, event: Event<"model.answered">): RunState => {
  const { profile } = event
  const turn = state.usage.turns + 1
  // A model that was asked to wrap up can make no further calls.
  const isLast = isWrappingUp(state)
  const said = isLast ? event.content.filter((part) => part._tag !== "toolCall") : event.content
  let calls: Array<ToolCall> | undefined
  const content = said.map((part): AssistantPart => {
    if (part._tag !== "toolCall") return part
    const call = requested(state, turn, (calls?.length ?? 0) + 1, part)
    // Most responses have one call, and pushing to an empty array over-allocates.
    if (calls === undefined) calls = [call]
    else calls.push(call)
    return { ...part, callId: call.id }
  })
  const message = {
    role: "assistant",
    sequence: History.size(state.history),
    at: event.at,
    content
  } as const
  const { sessionUsage, usage } = bookTurn(state, event.usage)
  const after: RunState = {
    ...state,
    history: History.append(state.history, profile === undefined ? message : { ...message, profile }),
    calls: calls ?? none,
    toolCalls: state.toolCalls + (calls?.length ?? 0),
    usage,
    sessionUsage,
    ...(state.reportTurns !== undefined && onlyTakesReports(state, said)
      ? { reportTurns: state.reportTurns + 1 }
      : {})
  }
  const taken = answeredAgain(after)
  if (calls !== undefined) return taken
  return appendQueued(isLast ? wrapUpAnswered(taken, turn) : taken)
}

const wrapUpAnswered = (state: RunState, turn: number): RunState =>
  state.wrappingUp === undefined
    ? state
    : { ...state, wrappingUp: { ...state.wrappingUp, answered: true }, wrappedUp: turn }

const requested = (
  { runId }: RunState,
  turn: number,
  ordinal: number,
  part: Extract<AnsweredPart, { readonly _tag: "toolCall" }>
): ToolCall => ({
  id: Id.toolCallId(runId, turn, ordinal),
  providerCallId: part.providerCallId,
  ordinal,
  name: part.name,
  argumentsText: part.arguments,
  status: "requested",
  target: "tool",
  safety: "sideEffecting",
  idempotent: false,
  attempt: 0
})

/** A search by a call leaves what was retrieved for the user's message. Either marks the run with what the found items were written from. */
const retrieved = (
  state: RunState,
  { at, items, sequence, untrusted = none }: Event<"memory.retrieved">
): RunState => {
  const marked = withUntrusted(state, untrusted)
  return items === undefined || sequence === undefined
    ? { ...marked }
    : { ...marked, retrieved: { sequence, at, items } }
}

/** Of two calls of one turn, the later in the response has the last word, whichever runs first. */
const planned = (state: RunState, { at, callId, entries }: Event<"plan.updated">): RunState => {
  const placeOf = (id: Id.ToolCallId | undefined) => state.calls.findIndex((call) => call.id === id)
  return placeOf(state.plan?.callId) > placeOf(callId) ? state : { ...state, plan: { entries, callId, at } }
}

const opened = (state: RunState, { request }: Event<"request.opened">): RunState => {
  const callId = callIdOf(request)
  if (callId === undefined) return { ...state, requests: [...state.requests, { request }] }
  // A call waits for one request at a time, so a new request supersedes the call's open one.
  const earlier = state.requests.map((record): RequestRecord =>
    callIdOf(record.request) === callId && RunState_.isOpen(record)
      ? { ...record, superseded: { reason: "it is asked anew", by: request.requestId } }
      : record
  )
  return updateCall({ ...state, requests: [...earlier, { request }] }, callId, (call) => ({
    ...call,
    status: request._tag === "inDoubt" ? "inDoubt" : "waiting",
    requestId: request.requestId
  }))
}

/** Restores a call to its state before its last start. Keeps `startedAt` only if an earlier attempt may have had an effect. */
const notStarted = (call: ToolCall): ToolCall => {
  if (call.status !== "started") return call
  const { startedAt, ...rest } = call
  const attempt = call.attempt - 1
  return {
    ...rest,
    status: "ready",
    attempt,
    ...(attempt === 0 || startedAt === undefined ? {} : { startedAt })
  }
}

const cancelled = (state: RunState, event: Event<"run.cancelled">): RunState => {
  const closed = closeCalls(paused(state, event.at), event.calls, event.at)
  const after = closeBackground(deliverQueued(appendCut(closed, event)), event.at)
  return {
    ...after,
    status: "cancelled",
    cancelled: {
      reason: event.reason,
      calls: event.calls,
      ...(event.said === undefined ? {} : { said: textOf(event.said) })
    },
    requests: after.requests.map((record) => closeRequest(record, "the run was cancelled"))
  }
}
