/**
 * The calls of a turn and what stands around them in the history: giving a call its result, closing the turn, saying something
 * where it may be said.
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

/** The events of one kind. */
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

/** Gives a call its result, once; the last one closes the turn. */
export const settle = (
  state: RunState,
  callId: ToolCallId,
  outcome: ToolOutcome,
  content: ReadonlyArray<UserPart>,
  at: Timestamp
): RunState => {
  const index = indexOf(state, callId)
  const open = state.calls[index]
  if (open === undefined || RunState_.isSettled(open)) return state
  const calls = state.calls.slice()
  calls[index] = { ...open, status: "settled", result: { outcome, content, at } }
  return calls.every(RunState_.isSettled) ? closeTurn(state, calls) : { ...state, calls }
}

/**
 * Moves the results of the turn into the history, in call order, and then what the user said meanwhile. The requests of its
 * sub-agents stay with the run, so that a late decision learns what became of its request.
 */
const closeTurn = (state: RunState, calls: ReadonlyArray<ToolCall>): RunState => {
  let { history, requests } = state
  for (const call of calls) {
    history = History.append(history, RunState_.toolMessage(call, History.size(history), state.startedAt))
    if (call.child !== undefined) requests = [...requests, ...requestsInside(call.child)]
  }
  return appendQueued({ ...withoutSuperseded(state), history, requests, calls: none })
}

/** Most turns are not superseded, and leaving a field out copies the others one by one. */
const withoutSuperseded = (state: RunState): RunState => {
  if (state.superseded === undefined) return state
  const { superseded: _, ...rest } = state
  return rest
}

const none: ReadonlyArray<never> = []

/** The requests of a run and of the sub-agents inside it, none of them open any more. */
export const requestsInside = (state: RunState): ReadonlyArray<RequestRecord> => [
  ...state.requests.map((record) => closeRequest(record, `the run of ${state.agent.name} ended`)),
  ...state.calls.flatMap((call) => (call.child === undefined ? [] : requestsInside(call.child))),
  ...(state.background ?? []).flatMap(({ child }) => (child === undefined ? [] : requestsInside(child)))
]

/** Closes the turn, with stand-in results for the calls that have none. */
export const closeCalls = (
  state: RunState,
  reports: ReadonlyArray<CallReport>,
  at: Timestamp,
  notRun: Extract<RunEvent, { readonly _tag: "run.started" }>["notRun"] = none
): RunState => {
  if (state.calls.length === 0) return state
  const calls = state.calls.map((call): ToolCall => {
    if (RunState_.isSettled(call)) return call
    const report = reports.find((report) => report.callId === call.id)
    const left = notRun.find(({ callId }) => callId === call.id)
    const said =
      left === undefined
        ? reportText(state, report, call)
        : releasedText(left.decision, left.by, "its run failed before it, and the next one began")
    return {
      ...call,
      status: "settled",
      result: { outcome: "cancelled", content: [text(said)], at }
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
      // Nobody decides about it any more.
      return call.status === "waiting" ? "This call has not run." : RunState_.syntheticText(call)
  }
}

/** The result of a call that a decision had released and that is not run: who released it, and why it is not run. */
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
 * Whether a user's message may stand at the end of the history now: not between a call and its result, and not where a model
 * may be answering what stands before it, since its answer would then seem to have seen the message.
 */
const mayAppend = (state: RunState): boolean =>
  state.calls.length === 0 &&
  (state.status !== "running" || History.last(state.history)?.role === "assistant")

/** Adds a message to the conversation: at once where the order of messages allows it, else as soon as it does. */
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

/** Appends what the user said meanwhile, where no model is answering any more. */
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
