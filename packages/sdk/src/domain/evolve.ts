/**
 * `evolve(state, event)` is what an event means: the state after it.
 *
 * Pure and total over the events that a run can produce. Folding a journal gives the state that was in memory, for every
 * prefix; results of parallel calls may arrive in any order and give the same state, because they move into the history
 * together, in call order, when the last call of the turn is settled.
 *
 * @since 0.1.0
 */
import * as History from "./History.ts"
import type { Revision } from "./Id.ts"
import * as Id from "./Id.ts"
import { callIdOf } from "./Interruption.ts"
import * as Limits from "./Limits.ts"
import type { AssistantPart } from "./Message.ts"
import { decided, superseded } from "./internal/decided.ts"
import {
  appendQueued,
  appendUser,
  asText,
  closeCalls,
  closeRequest,
  flush,
  mayAppend,
  settle,
  updateCall,
  updateRequest
} from "./internal/turn.ts"
import { text } from "./Message.ts"
import { fromFailure } from "./RunError.ts"
import { type RunEvent, unwrap } from "./RunEvent.ts"
import type { RequestRecord, RunState, ToolCall } from "./RunState.ts"
import * as RunState_ from "./RunState.ts"
import type { ModelUsage } from "./Usage.ts"
import * as Usage from "./Usage.ts"

type Event<Tag extends RunEvent["_tag"]> = Extract<RunEvent, { readonly _tag: Tag }>

/** The state after an event; `undefined` is the state before a session's first run. */
export const evolve = (state: RunState | undefined, event: RunEvent): RunState => {
  if (event._tag === "run.started") return started(state, event)
  if (state === undefined) throw new Error(`A journal begins with run.started, not with ${event._tag}.`)
  const after = apply(state, event)
  const revision = (state.revision + 1) as Revision
  if (after.recoveries === undefined || !isProgress(event)) return { ...after, revision }
  const { recoveries: _, ...rest } = after
  return { ...rest, revision }
}

/** Whether the run has got further; events that only say that somebody tries do not count. */
const isProgress = (event: RunEvent): boolean => {
  switch (unwrap(event).event._tag) {
    case "run.recovered":
    case "tool.classified":
    case "tool.started":
    case "request.expiring":
    case "message.queued":
    case "limits.changed":
      return false
    default:
      return true
  }
}

/** The state after a list of events. */
export const evolveAll = (state: RunState | undefined, events: Iterable<RunEvent>): RunState | undefined => {
  let current = state
  for (const event of events) current = evolve(current, event)
  return current
}

const apply = (state: RunState, event: Exclude<RunEvent, Event<"run.started">>): RunState => {
  switch (event._tag) {
    case "model.answered":
      return answered(state, event)
    case "tool.classified":
      return updateCall(state, event.callId, (call) => ({
        ...call,
        target: event.target,
        safety: event.safety,
        idempotent: event.idempotent,
        arguments: event.arguments,
        status: event.allowedBy === undefined ? call.status : "ready",
        ...(event.grantId === undefined ? {} : { grantId: event.grantId })
      }))
    case "tool.started":
      return updateCall(state, event.callId, (call) => ({
        ...call,
        status: "started",
        attempt: call.attempt + 1,
        startedAt: event.at
      }))
    case "tool.completed":
      return settle(state, event.callId, "completed", event.content, event.at)
    case "tool.failed":
      return settle(state, event.callId, "failed", event.content, event.at)
    case "tool.denied":
      return settle(state, event.callId, "denied", event.content, event.at)
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
          grant.id === event.grantId ? { ...grant, revoked: { by: event.by, at: event.at } } : grant
        )
      }
    case "message.queued":
      return mayAppend(state)
        ? appendUser(state, event.content, event.at)
        : { ...state, queued: [...state.queued, { content: event.content, at: event.at }] }
    case "output.rejected":
      return appendUser(state, [text(event.message)], event.at, "runtime")
    case "limits.changed":
      return limitsChanged(state, event)
    case "run.held":
      return { ...flush(state), status: "held" }
    case "run.recovered":
      return { ...state, recoveries: (state.recoveries ?? 0) + 1 }
    case "run.resumed": {
      const { failure: _, ...rest } = flush(state)
      return { ...rest, status: "running" }
    }
    case "run.completed":
      return {
        ...state,
        status: "completed",
        ...(event.output === undefined ? {} : { output: event.output })
      }
    case "run.cancelled":
      return cancelled(state, event)
    case "run.failed":
      return { ...flush(state), status: "error", failure: event.failure }
    case "child.advanced":
      return childAdvanced(state, event)
  }
}

const started = (before: RunState | undefined, event: Event<"run.started">): RunState => {
  // A session goes on only from a valid history: calls that a failed run left open get their stand-in results here.
  const previous = before === undefined ? undefined : flush(closeCalls(before, [], event.at))
  const fresh: RunState = {
    version: RunState_.version,
    runId: event.runId,
    sessionId: event.sessionId,
    agent: event.agent,
    agentPath: event.agentPath,
    status: "running",
    revision: 1 as Revision,
    startedAt: event.at,
    ...(event.parent === undefined ? {} : { parent: event.parent }),
    history: previous?.history ?? History.empty,
    limits: event.limits,
    policy: event.policy,
    asks: event.asks,
    structured: event.structured,
    requests: [],
    grants: previous?.grants.filter((grant) => grant.scope === "session") ?? [],
    queued: [],
    toolCalls: 0,
    usage: Usage.zero,
    sessionUsage: previous?.sessionUsage ?? Usage.zero,
    calls: []
  }
  return appendUser(fresh, event.prompt, event.at)
}

const answered = (state: RunState, event: Event<"model.answered">): RunState => {
  const turn = state.usage.turns + 1
  const calls: Array<ToolCall> = []
  const content = event.content.map((part): AssistantPart => {
    if (part._tag !== "toolCall") return part
    const id = Id.toolCallId(state.runId, turn, calls.length + 1)
    calls.push({
      id,
      providerCallId: part.providerCallId,
      ordinal: calls.length + 1,
      name: part.name,
      argumentsText: part.arguments,
      status: "requested",
      target: "tool",
      safety: "sideEffecting",
      idempotent: false,
      attempt: 0
    })
    return { ...part, callId: id }
  })
  const after: RunState = {
    ...state,
    history: History.append(state.history, {
      role: "assistant",
      sequence: History.size(state.history),
      at: event.at,
      content,
      ...(event.profile === undefined ? {} : { profile: event.profile })
    }),
    calls,
    toolCalls: state.toolCalls + calls.length,
    usage: Usage.addModelCall(state.usage, event.usage),
    sessionUsage: Usage.addModelCall(state.sessionUsage, event.usage)
  }
  return calls.length === 0 ? appendQueued(after) : after
}

const opened = (state: RunState, { request }: Event<"request.opened">): RunState => {
  const callId = callIdOf(request)
  if (callId === undefined) return { ...state, requests: [...state.requests, { request }] }
  // A call waits for one request at a time.
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

const cancelled = (state: RunState, event: Event<"run.cancelled">): RunState => {
  const after = flush(closeCalls(state, event.calls, event.at))
  return {
    ...after,
    status: "cancelled",
    cancelled: { reason: event.reason, calls: event.calls },
    requests: after.requests.map((record) => closeRequest(record, "the run was cancelled"))
  }
}

const childAdvanced = (state: RunState, event: Event<"child.advanced">): RunState => {
  const call = RunState_.findCall(state, event.callId)
  if (call === undefined || RunState_.isSettled(call)) return state
  const child = evolve(call.child, event.event)
  const booked = bookChild(state, event.event)
  const after = updateCall(booked, event.callId, (call) => ({
    ...call,
    child,
    status: "started",
    attempt: Math.max(call.attempt, 1),
    ...(call.startedAt === undefined ? { startedAt: event.at } : {})
  }))
  switch (child.status) {
    case "completed":
      return settle(
        after,
        event.callId,
        "completed",
        [text(child.output === undefined ? RunState_.text(child) : asText(child.output))],
        event.at
      )
    case "cancelled":
      return settle(
        after,
        event.callId,
        "cancelled",
        [text(`${child.agent.name} was stopped: ${child.cancelled?.reason ?? "cancelled"}.`)],
        event.at
      )
    case "error":
      return settle(
        after,
        event.callId,
        "failed",
        [
          text(
            `${child.agent.name} failed. ${child.failure === undefined ? "" : fromFailure(child.failure).message}`
          )
        ],
        event.at
      )
    default:
      return after
  }
}

/** A budget that was changed otherwise needs no decision any more. */
const limitsChanged = (state: RunState, { limits }: Event<"limits.changed">): RunState => ({
  ...state,
  limits,
  requests: state.requests.map((record) =>
    record.request._tag === "limit" && Limits.budgetOf(limits, record.request.budget) !== record.request.limit
      ? closeRequest(record, "the limits were changed")
      : record
  )
})

/** A sub-agent's model calls are paid by its parent too; they are not turns of the parent. */
const bookChild = (state: RunState, event: RunEvent): RunState => {
  const usage = usageOf(event)
  if (usage === undefined) return state
  const book = (total: Usage.SessionUsage) => ({ ...Usage.addModelCall(total, usage), turns: total.turns })
  return { ...state, usage: book(state.usage), sessionUsage: book(state.sessionUsage) }
}

const usageOf = (event: RunEvent): ModelUsage | undefined => {
  if (event._tag === "model.answered") return event.usage
  return event._tag === "child.advanced" ? usageOf(event.event) : undefined
}
