/**
 * Folds the results of a turn's calls and the messages around them: settles calls, closes the turn, and appends messages where the order
 * of the history permits it.
 */
import { name } from "../Display.ts"
import * as History from "../History.ts"
import type { RequestId, Timestamp, ToolCallId } from "../Id.ts"
import type { ToolOutcome, UserPart } from "../Message.ts"
import { text } from "../Message.ts"
import type { RunEvent } from "../RunEvent.ts"
import type { RequestRecord, RunState, ToolCall } from "../RunState.ts"
import * as RunState_ from "../RunState.ts"
import type { CallReport } from "../ToolCall.ts"
import { informed } from "./editText.ts"
import { isOnHold, returnedResult } from "./released.ts"
import { untrustedResults, withUntrusted } from "./untrusted.ts"

/** The events with this tag. */
export type Event<Tag extends RunEvent["_tag"]> = Extract<RunEvent, { readonly _tag: Tag }>

export const closeRequest = (record: RequestRecord, reason: string): RequestRecord =>
  RunState_.isOpen(record) ? { ...record, superseded: { reason } } : record

export const updateCall = (
  state: RunState,
  callId: ToolCallId,
  f: (call: ToolCall) => ToolCall
): RunState => {
  const index = indexOf(state, callId)
  if (index < 0) return { ...state }
  const calls = state.calls.slice()
  calls[index] = f(calls[index]!)
  return { ...state, calls }
}

const indexOf = ({ calls }: RunState, callId: ToolCallId): number => {
  let index = calls.length - 1
  while (index >= 0 && calls[index]!.id !== callId) index -= 1
  return index
}

export const updateRequest = (
  state: RunState,
  requestId: RequestId,
  f: (record: RequestRecord) => RequestRecord
): RunState => ({
  ...state,
  requests: state.requests.map((record) => (record.request.requestId === requestId ? f(record) : record))
})

/** Gives a call its result, unless it has one. The result of the last open call closes the turn. */
export const settle = (
  state: RunState,
  callId: ToolCallId,
  outcome: ToolOutcome,
  content: ReadonlyArray<UserPart>,
  at: Timestamp,
  untrusted?: true
): RunState => {
  const index = indexOf(state, callId)
  const open = state.calls[index]
  if (open === undefined || RunState_.isSettled(open)) return state
  const calls = state.calls.slice()
  const result = { outcome, content: informed(open, content), at }
  calls[index] = {
    ...open,
    status: "settled",
    result: untrusted === undefined ? result : { ...result, untrusted }
  }
  return calls.every(RunState_.isSettled) ? closeTurn(state, calls) : { ...state, calls }
}

/**
 * Moves the results of the turn into the history, in call order, and then the queued messages. The requests of its sub-agents stay
 * with the run, so that a late decision gets the reason why its request is closed.
 */
const closeTurn = (state: RunState, calls: ReadonlyArray<ToolCall>): RunState => {
  let { history, requests } = state
  for (const call of calls) {
    history = History.append(history, RunState_.toolMessage(call, History.size(history), state.startedAt))
    if (call.child !== undefined) requests = [...requests, ...requestsInside(call.child)]
  }
  const closed = { ...withoutSuperseded(state), history, requests, calls: none }
  return appendQueued(withUntrusted(closed, untrustedResults(calls)))
}

/** Removes the mark of a superseded turn. Most turns have none, and a rest pattern copies the other fields one by one. */
const withoutSuperseded = (state: RunState): RunState => {
  if (state.superseded === undefined) return state
  const { superseded: _, ...rest } = state
  return rest
}

const none: ReadonlyArray<never> = []

/** The requests of a run and of the sub-agents inside it, with the open ones closed. */
export const requestsInside = (state: RunState): ReadonlyArray<RequestRecord> => [
  ...state.requests.map((record) => closeRequest(record, `the run of ${state.agent.name} ended`)),
  ...state.calls.flatMap((call) => (call.child === undefined ? [] : requestsInside(call.child))),
  ...(state.background ?? []).flatMap(({ child }) => (child === undefined ? [] : requestsInside(child)))
]

/** Closes the turn, with placeholder results for the calls that have none. */
export const closeCalls = (
  state: RunState,
  reports: ReadonlyArray<CallReport>,
  at: Timestamp,
  notRun: Extract<RunEvent, { readonly _tag: "run.started" }>["notRun"] = none
): RunState => {
  if (state.calls.length === 0) return state
  const calls = state.calls.map((call): ToolCall => {
    if (RunState_.isSettled(call)) return call
    const returned = returnedResult(state, call)
    if (returned !== undefined) {
      const content = [text(asText(returned))]
      return { ...call, status: "settled", result: { outcome: "completed", content, at } }
    }
    const report = reports.find((report) => report.callId === call.id)
    const left = notRun.find(({ callId }) => callId === call.id)
    const said =
      left === undefined
        ? reportText(state, report, call)
        : releasedText(left.decision, left.by, "its run failed before it, and the next one began")
    return {
      ...call,
      status: "settled",
      result: { outcome: "cancelled", content: informed(call, [text(said)]), at }
    }
  })
  return closeTurn(state, calls)
}

const reportText = (state: RunState, report: CallReport | undefined, call: ToolCall): string => {
  if (report?.decided !== undefined) {
    const { decision, requestId } = report.decided
    const found = state.requests.find(({ request }) => request.requestId === requestId)?.decision
    return releasedText(decision, found?.by, "the run ended before it")
  }
  switch (report?.state) {
    case "aborted":
      return "This call was stopped before it finished."
    case "inDoubt":
      return "This call was stopped while it ran; it is not known whether it took effect."
    case "notStarted":
      return "This call was cancelled before it ran."
    default:
      if (isOnHold(state, call)) return "This call was started, and its result had not come."
      // The turn is closed, so a waiting call no longer waits for a decision.
      return call.status === "waiting" ? "This call has not run." : RunState_.syntheticText(call)
  }
}

/** The result of a released call that did not run: who released it, and why it did not run. */
export const releasedText = (decision: "approve" | "retry", by: string | undefined, why: string): string => {
  const whom = by === undefined ? "" : ` by ${name(by)}`
  return decision === "approve"
    ? `This call was approved${whom}, and has not run: ${why}.`
    : `This call was started, and it is not known whether it took effect. It was decided${whom} to run it again; it was not: ${why}.`
}

export const appendUser = (
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
 * Whether a user's message may be appended now. Not between a call and its result, and not while a model call may be in progress, whose
 * response would then follow a message that the model did not see.
 */
const mayAppend = (state: RunState): boolean =>
  state.calls.length === 0 &&
  (state.status !== "running" || History.last(state.history)?.role === "assistant")

/** Appends a message if the order of messages permits it now, and queues it otherwise. */
export const deliverMessage = (
  state: RunState,
  content: ReadonlyArray<UserPart>,
  at: Timestamp,
  origin?: "runtime"
): RunState =>
  mayAppend(state)
    ? appendUser(state, content, at, origin)
    : {
        ...state,
        queued: [...state.queued, { content, at, ...(origin === undefined ? {} : { origin }) }]
      }

/** Appends the queued messages unless calls are open. For events after which no model call is in progress. */
export const deliverQueued = (state: RunState): RunState =>
  state.calls.length === 0 ? appendQueued(state) : state

export const appendQueued = (state: RunState): RunState => {
  if (state.queued.length === 0) return state
  const after = state.queued.reduce(
    (state, { at, content, origin }) => appendUser(state, content, at, origin),
    state
  )
  return { ...after, queued: [] }
}

export const asText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value))
