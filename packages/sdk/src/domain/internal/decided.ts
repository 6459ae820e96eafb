/**
 * Folds decisions into the run that asked: releases or settles calls, adds grants, raises budgets, stops the run, and supersedes turns.
 *
 * A decision with `supersedes` names the run that received a new message instead. It supersedes the open turn of that run and of each
 * run from there down to the request, and stops the sub-agents that those turns wait for. Started calls finish. Requested and ready calls
 * get their result at once, waiting ones from their own decisions, so the order in which the decisions on a turn are folded does not
 * matter.
 */
import type { BlobRef } from "../Blob.ts"
import type { Deny } from "../Decision.ts"
import { name, sentence, text as shown } from "../Display.ts"
import * as Grant from "../Grant.ts"
import * as History from "../History.ts"
import type { Timestamp, ToolCallId } from "../Id.ts"
import * as Id from "../Id.ts"
import { callIdOf, isHold } from "../Interruption.ts"
import type { AssistantPart, ToolOutcome } from "../Message.ts"
import { text } from "../Message.ts"
import { type RunEvent, unwrap } from "../RunEvent.ts"
import type { RequestRecord, RunState, ToolCall } from "../RunState.ts"
import * as RunState_ from "../RunState.ts"
import { defined } from "./defined.ts"
import { noteText } from "./editText.ts"
import { toppedUp } from "./limitChanges.ts"
import { isLeftToHold, recordOf } from "./released.ts"
import { asText, releasedText, settle, updateCall, updateRequest, type Event } from "./turn.ts"

/** Folds a decision; a decision on a request that the run does not have changes nothing. */
export const decided = (state: RunState, event: Event<"request.decided">): RunState => {
  const { decision, informs } = event
  const record = state.requests.find((record) => record.request.requestId === decision.requestId)
  if (record === undefined) return state
  const { request } = record
  const after = updateRequest(state, decision.requestId, (record) => ({ ...record, decision }))
  const callId = callIdOf(request)
  const settled = (state: RunState, outcome: ToolOutcome, said: string, whole?: BlobRef) =>
    callId === undefined
      ? state
      : settle(state, callId, outcome, [{ ...text(said), ...defined({ whole }) }], event.at)
  switch (decision._tag) {
    case "approve":
      return request._tag === "approval" ? approved(after, request, decision, informs) : after
    case "deny":
      return settled(
        stopping(after),
        "denied",
        denialText(decision, informs === true ? decision.note : undefined)
      )
    case "answer":
      return settled(after, "completed", decision.answer)
    case "supply":
      // The tool's limits apply to the result of an external call, so the run shows it to the model.
      return request._tag === "external"
        ? after
        : settled(after, isHold(request) ? "completed" : "supplied", asText(decision.result), decision.whole)
    case "fail":
      return settled(after, "failed", shown(decision.message ?? "This call failed."))
    case "retry":
      return callId === undefined
        ? after
        : updateCall(after, callId, (call) => ({ ...call, status: "ready" }))
    case "topUp":
      return request._tag === "limit" ? toppedUp(after, request.budget, decision.limit, event.at) : after
  }
}

/**
 * Stops the run if a denial says so, or denies a login. Of several such denials, the one on the earliest request counts, so that their
 * order in time does not matter.
 */
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

/** Closes a request. If no new request replaces it, its call is classified, or its outcome determined, again. */
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
      // The body of a call on hold has run: its outcome has to be determined, as after a crash.
      const hasRun = call.status === "inDoubt" || isLeftToHold(after, call)
      return { ...rest, status: hasRun ? "started" : "requested" }
    })
  }
}

const approved = (
  state: RunState,
  request: Extract<RequestRecord["request"], { readonly _tag: "approval" }>,
  decision: Extract<NonNullable<RequestRecord["decision"]>, { readonly _tag: "approve" }>,
  informs: true | undefined
): RunState => {
  const { arguments: edited, by, note } = decision
  const released = updateCall(state, request.callId, (call) => {
    if (edited === undefined) return { ...call, status: "ready" }
    const { edited: _edit, value: _value, ...rest } = call
    return {
      ...rest,
      status: "ready",
      arguments: edited,
      proposed: call.proposed ?? request.arguments,
      ...(informs === true ? { edited: { by, ...defined({ note }) } } : {})
    }
  })
  // The history also changes if an edited call got a new request, which is now approved as shown.
  const wasEdited = RunState_.findCall(state, request.callId)?.proposed !== undefined
  const shown =
    edited === undefined && !wasEdited
      ? released
      : editHistory(released, request.callId, JSON.stringify(edited ?? request.arguments))
  if (decision.grant === undefined) return shown
  const grant = Grant.fromApproval(request, { ...decision, grant: decision.grant }, state.agent)
  return { ...shown, grants: inRequestOrder([...shown.grants, grant], shown.requests) }
}

/** Sorts grants: those of earlier runs first, then this run's in the order of their requests, so that the order of decisions does not matter. */
const inRequestOrder = (
  grants: ReadonlyArray<Grant.Grant>,
  requests: ReadonlyArray<RequestRecord>
): ReadonlyArray<Grant.Grant> => {
  const place = new Map(requests.map((record, index) => [Id.grantId(record.request.requestId), index]))
  return grants.toSorted((a, b) => (place.get(a.id) ?? -1) - (place.get(b.id) ?? -1))
}

/** Replaces a call's arguments in the history by the approved ones, and drops the provider's payload, which may sign the old ones. */
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

/**
 * The result of a denied call: the decision's message with its line breaks and with hidden characters escaped, or a default text, and the
 * note.
 */
const denialText = ({ by, message }: Pick<Deny, "by" | "message">, note: string | undefined): string => {
  const said =
    message === undefined || message === ""
      ? `This call was denied by ${name(by)}. It has not run.`
      : shown(message)
  return note === undefined || note === "" ? said : `${said}\n\n${noteText(note)}`
}

/** Supersedes the open turn if the event's decision says so, and settles the unstarted calls of a superseded turn. */
export const supersede = (state: RunState, event: RunEvent): RunState => {
  const marked = state.superseded === undefined ? mark(state, event) : state
  return marked.superseded === undefined ? marked : dropCalls(marked, event.at)
}

const mark = (state: RunState, event: RunEvent): RunState => {
  if (event._tag !== "request.decided" && event._tag !== "child.advanced") return state
  const { event: inner } = unwrap(event)
  if (inner._tag !== "request.decided" || state.calls.length === 0) return state
  const { decision } = inner
  const run = "supersedes" in decision ? decision.supersedes : undefined
  if (run === undefined || !Id.isWithin(state.runId, run)) return state
  const stop = { by: decision.by, reason: superseding }
  return {
    ...state,
    superseded: { by: decision.by, run },
    calls: state.calls.map((call) =>
      call.child === undefined || RunState_.isSettled(call) || call.child.stop !== undefined
        ? call
        : { ...call, child: { ...call.child, stop } }
    )
  }
}

const superseding = "the user has said something else instead"

const dropCalls = (state: RunState, at: Timestamp): RunState => {
  let after = state
  for (const call of state.calls) {
    if (call.status !== "requested" && call.status !== "ready") continue
    after = settle(after, call.id, "cancelled", [text(droppedText(state, call))], at)
  }
  return after
}

const droppedText = (state: RunState, call: ToolCall): string => {
  const why = state.superseded?.run === state.runId ? `${superseding}; it follows` : superseding
  const decision = recordOf(state, call)?.decision
  if (decision?._tag === "approve" || decision?._tag === "retry") {
    return releasedText(decision._tag, decision.by, why)
  }
  return call.attempt === 0
    ? `This call has not run: ${why}.`
    : `This call was started and it is not known whether it took effect. It was not run again: ${why}.`
}
