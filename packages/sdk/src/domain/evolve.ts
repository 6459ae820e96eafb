/**
 * `evolve(state, event)` is what an event means: the state after it.
 *
 * Pure and total over the events that a run can produce. Folding a journal gives the state that was in memory, for every
 * prefix; results of parallel calls may arrive in any order and give the same state, because they move into the history
 * together, in call order, when the last call of the turn is settled.
 *
 * @since 0.1.0
 */
import * as Grant from "./Grant.ts"
import * as History from "./History.ts"
import type { RequestId, Revision, Timestamp, ToolCallId } from "./Id.ts"
import * as Id from "./Id.ts"
import { callIdOf } from "./Interruption.ts"
import * as Limits from "./Limits.ts"
import type { AssistantPart, ToolOutcome, UserPart } from "./Message.ts"
import { text } from "./Message.ts"
import { fromFailure } from "./RunError.ts"
import type { RunEvent } from "./RunEvent.ts"
import type { RequestRecord, RunState, ToolCall } from "./RunState.ts"
import * as RunState_ from "./RunState.ts"
import type { CallReport } from "./ToolCall.ts"
import type { ModelUsage } from "./Usage.ts"
import * as Usage from "./Usage.ts"

type Event<Tag extends RunEvent["_tag"]> = Extract<RunEvent, { readonly _tag: Tag }>

/** The state after an event; `undefined` is the state before a session's first run. */
export const evolve = (state: RunState | undefined, event: RunEvent): RunState => {
  if (event._tag === "run.started") return started(state, event)
  if (state === undefined) throw new Error(`A journal begins with run.started, not with ${event._tag}.`)
  const after = apply(state, event)
  return { ...after, revision: (state.revision + 1) as Revision }
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

const decided = (state: RunState, event: Event<"request.decided">): RunState => {
  const { decision } = event
  const record = state.requests.find((record) => record.request.requestId === decision.requestId)
  if (record === undefined) return state
  const { request } = record
  const after = updateRequest(state, decision.requestId, (record) => ({ ...record, decision }))
  const callId = callIdOf(request)
  switch (decision._tag) {
    case "approve":
      return request._tag === "approval" ? approved(after, request, decision) : after
    case "deny": {
      const stopped = stopping(after)
      return callId === undefined
        ? stopped
        : settle(stopped, callId, "denied", [text(denialText(decision.message, decision.by))], event.at)
    }
    case "answer":
      return callId === undefined
        ? after
        : settle(after, callId, "completed", [text(decision.answer)], event.at)
    case "supply":
      return callId === undefined
        ? after
        : settle(after, callId, "supplied", [text(asText(decision.result))], event.at)
    case "fail":
      return callId === undefined
        ? after
        : settle(after, callId, "failed", [text(decision.message ?? "This call failed.")], event.at)
    case "retry":
      return callId === undefined
        ? after
        : updateCall(after, callId, (call) => ({ ...call, status: "ready" }))
    case "topUp":
      return request._tag === "limit"
        ? { ...after, limits: Limits.withBudget(after.limits, request.budget, decision.limit) }
        : after
  }
}

/** The denial that ends the run. Of several, that of the earliest request: their order in time must not show. */
const stopping = (state: RunState): RunState => {
  for (const { request, decision } of state.requests) {
    if (request.runId !== state.runId || decision?._tag !== "deny") continue
    if (decision.then !== "stop" && request._tag !== "login") continue
    return { ...state, stop: { by: decision.by, reason: decision.message ?? `denied by ${decision.by}` } }
  }
  return state
}

/** With nobody asked instead, what the call waited for has to be found out again. */
const superseded = (state: RunState, event: Event<"request.superseded">): RunState => {
  const after = updateRequest(state, event.requestId, (record) => ({
    ...record,
    superseded: { reason: event.reason, ...(event.by === undefined ? {} : { by: event.by }) }
  }))
  if (event.by !== undefined) return after
  return {
    ...after,
    calls: after.calls.map((call) => {
      if (call.requestId !== event.requestId || (call.status !== "waiting" && call.status !== "inDoubt"))
        return call
      const { requestId: _, ...rest } = call
      return { ...rest, status: call.status === "waiting" ? "requested" : "started" }
    })
  }
}

const approved = (
  state: RunState,
  request: Extract<RequestRecord["request"], { readonly _tag: "approval" }>,
  decision: Extract<NonNullable<RequestRecord["decision"]>, { readonly _tag: "approve" }>
): RunState => {
  const edited = decision.arguments
  const released = updateCall(state, request.callId, (call) => ({
    ...call,
    status: "ready",
    ...(edited === undefined ? {} : { arguments: edited, proposed: call.proposed ?? request.arguments })
  }))
  // Also when an edited call was asked about anew and is now approved as it is asked.
  const wasEdited = RunState_.findCall(state, request.callId)?.proposed !== undefined
  const shown =
    edited === undefined && !wasEdited
      ? released
      : editHistory(released, request.callId, JSON.stringify(edited ?? request.arguments))
  if (decision.grant === undefined) return shown
  const grant = Grant.make({
    id: Id.grantId(request.requestId),
    tool: request.tool,
    approved: edited ?? request.arguments,
    request: decision.grant,
    by: decision.by,
    at: decision.at
  })
  return { ...shown, grants: inRequestOrder([...shown.grants, grant], shown.requests) }
}

/** Grants of earlier runs first, then this run's in the order of the requests, whichever was decided first. */
const inRequestOrder = (
  grants: ReadonlyArray<Grant.Grant>,
  requests: ReadonlyArray<RequestRecord>
): ReadonlyArray<Grant.Grant> => {
  const place = new Map(requests.map((record, index) => [Id.grantId(record.request.requestId), index]))
  return grants.toSorted((a, b) => (place.get(a.id) ?? -1) - (place.get(b.id) ?? -1))
}

/** The history shows the arguments that ran. A provider's signature over the old ones goes with them. */
const editHistory = (state: RunState, callId: ToolCallId, args: string): RunState => {
  const answer = History.last(state.history)
  if (answer?.role !== "assistant") return state
  const content = answer.content.map((part): AssistantPart => {
    if (part._tag !== "toolCall" || part.callId !== callId) return part
    const { payload: _, ...rest } = part
    return { ...rest, arguments: args }
  })
  return { ...state, history: History.replaceLast(state.history, { ...answer, content }) }
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

const closeRequest = (record: RequestRecord, reason: string): RequestRecord =>
  RunState_.isOpen(record) ? { ...record, superseded: { reason } } : record

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

const updateCall = (state: RunState, callId: ToolCallId, f: (call: ToolCall) => ToolCall): RunState => ({
  ...state,
  calls: state.calls.map((call) => (call.id === callId ? f(call) : call))
})

const updateRequest = (
  state: RunState,
  requestId: RequestId,
  f: (record: RequestRecord) => RequestRecord
): RunState => ({
  ...state,
  requests: state.requests.map((record) => (record.request.requestId === requestId ? f(record) : record))
})

/** Gives a call its result, once; the last one closes the turn. */
const settle = (
  state: RunState,
  callId: ToolCallId,
  outcome: ToolOutcome,
  content: ReadonlyArray<UserPart>,
  at: Timestamp
): RunState => {
  const open = RunState_.findCall(state, callId)
  if (open === undefined || RunState_.isSettled(open)) return state
  const after = updateCall(state, callId, (call) => ({
    ...call,
    status: "settled",
    result: { outcome, content, at }
  }))
  return after.calls.every(RunState_.isSettled) ? closeTurn(after) : after
}

/**
 * Moves the results of the turn into the history, in call order, and then what the user said meanwhile. The requests of its
 * sub-agents stay with the run, so that a late decision is told what became of its request.
 */
const closeTurn = (state: RunState): RunState => {
  let history = state.history
  for (const call of state.calls) {
    history = History.append(history, RunState_.toolMessage(call, History.size(history), state.startedAt))
  }
  const inside = state.calls.flatMap((call) => (call.child === undefined ? [] : requestsInside(call.child)))
  const requests = inside.length === 0 ? state.requests : [...state.requests, ...inside]
  return appendQueued({ ...state, history, requests, calls: [] })
}

/** The requests of a run and of the sub-agents inside it, none of them open any more. */
const requestsInside = (state: RunState): ReadonlyArray<RequestRecord> => [
  ...state.requests.map((record) => closeRequest(record, `the run of ${state.agent.name} ended`)),
  ...state.calls.flatMap((call) => (call.child === undefined ? [] : requestsInside(call.child)))
]

/** Closes the turn, with stand-in results for the calls that have none. */
const closeCalls = (state: RunState, reports: ReadonlyArray<CallReport>, at: Timestamp): RunState => {
  if (state.calls.length === 0) return state
  const calls = state.calls.map((call): ToolCall => {
    if (RunState_.isSettled(call)) return call
    const report = reports.find((report) => report.callId === call.id)
    return {
      ...call,
      status: "settled",
      result: { outcome: "cancelled", content: [text(reportText(report, call))], at }
    }
  })
  return closeTurn({ ...state, calls })
}

const reportText = (report: CallReport | undefined, call: ToolCall): string => {
  switch (report?.state) {
    case "aborted":
      return "This call was stopped before it finished."
    case "inDoubt":
      return "This call was stopped while it ran; it is not known whether it took effect."
    case "notStarted":
      return "This call was cancelled before it ran."
    default:
      return RunState_.syntheticText(call)
  }
}

const appendUser = (
  state: RunState,
  content: ReadonlyArray<UserPart>,
  at: Timestamp,
  origin?: "runtime"
): RunState => ({
  ...state,
  history: History.append(state.history, {
    role: "user",
    sequence: History.size(state.history),
    at,
    content,
    ...(origin === undefined ? {} : { origin })
  })
})

/**
 * Whether a user's message may stand at the end of the history now: not between a call and its result, and not where a model
 * may be answering what stands before it, since its answer would then seem to have seen the message.
 */
const mayAppend = (state: RunState): boolean =>
  state.calls.length === 0 &&
  (state.status !== "running" || History.last(state.history)?.role === "assistant")

/** Appends what the user said meanwhile, where no model is answering any more. */
const flush = (state: RunState): RunState => (state.calls.length === 0 ? appendQueued(state) : state)

const appendQueued = (state: RunState): RunState => {
  if (state.queued.length === 0) return state
  const after = state.queued.reduce((state, message) => appendUser(state, message.content, message.at), state)
  return { ...after, queued: [] }
}

const denialText = (message: string | undefined, by: string): string =>
  message === undefined || message === "" ? `This call was denied by ${by}. It has not run.` : message

const asText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value))
