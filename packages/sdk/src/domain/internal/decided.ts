/**
 * What a decision means for the run that asked: calls that are released or settled, grants, budgets, the end.
 */
import { name, sentence, text as shown } from "../Display.ts"
import * as Grant from "../Grant.ts"
import * as History from "../History.ts"
import type { ToolCallId } from "../Id.ts"
import * as Id from "../Id.ts"
import { callIdOf } from "../Interruption.ts"
import type { AssistantPart } from "../Message.ts"
import { text } from "../Message.ts"
import type { RunEvent } from "../RunEvent.ts"
import type { RequestRecord, RunState } from "../RunState.ts"
import * as RunState_ from "../RunState.ts"
import { toppedUp } from "./budgets.ts"
import { asText, settle, updateCall, updateRequest } from "./turn.ts"

type Event<Tag extends RunEvent["_tag"]> = Extract<RunEvent, { readonly _tag: Tag }>

export const decided = (state: RunState, event: Event<"request.decided">): RunState => {
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
        : settle(after, callId, "failed", [text(shown(decision.message ?? "This call failed."))], event.at)
    case "retry":
      return callId === undefined
        ? after
        : updateCall(after, callId, (call) => ({ ...call, status: "ready" }))
    case "topUp":
      return request._tag === "limit" ? toppedUp(after, request.budget, decision.limit, event.at) : after
  }
}

/** The denial that ends the run. Of several, that of the earliest request: their order in time must not show. */
const stopping = (state: RunState): RunState => {
  for (const { request, decision } of state.requests) {
    if (request.runId !== state.runId || decision?._tag !== "deny") continue
    if (decision.then !== "stop" && request._tag !== "login") continue
    return {
      ...state,
      stop: { by: decision.by, reason: decision.message ?? sentence`denied by ${decision.by}` }
    }
  }
  return state
}

/** With nobody asked instead, what the call waited for has to be found out again. */
export const superseded = (state: RunState, event: Event<"request.superseded">): RunState => {
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
  const released = updateCall(state, request.callId, (call) => {
    if (edited === undefined) return { ...call, status: "ready" }
    const { value: _, ...rest } = call
    return { ...rest, status: "ready", arguments: edited, proposed: call.proposed ?? request.arguments }
  })
  // Also when an edited call was asked about anew and is now approved as it is asked.
  const wasEdited = RunState_.findCall(state, request.callId)?.proposed !== undefined
  const shown =
    edited === undefined && !wasEdited
      ? released
      : editHistory(released, request.callId, JSON.stringify(edited ?? request.arguments))
  if (decision.grant === undefined) return shown
  const grant = Grant.fromApproval(request, { ...decision, grant: decision.grant }, state.agent)
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
    const { payload: _, provider: __, ...rest } = part
    return { ...rest, arguments: args }
  })
  return { ...state, history: History.replaceLast(state.history, { ...answer, content }) }
}

/** A message is what a person wrote to the model: its words and its lines stay, and hidden characters are shown. */
const denialText = (message: string | undefined, by: string): string =>
  message === undefined || message === ""
    ? `This call was denied by ${name(by)}. It has not run.`
    : shown(message)
