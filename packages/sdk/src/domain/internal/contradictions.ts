/**
 * Checks that the parts of a run state agree, which its schema's types cannot express. A contradictory state from outside would send a
 * provider a history that it refuses, or wait for a decision that cannot be made.
 */
import type * as Schema from "effect/Schema"
import type { Summary } from "../Compaction.ts"
import * as History from "../History.ts"
import { type Message, standsAlone } from "../Message.ts"
import type * as ToolCall from "../ToolCall.ts"

type Call = Pick<
  Schema.Struct.Type<typeof ToolCall.fields>,
  "id" | "ordinal" | "requestId" | "result" | "status" | "target"
>

/** The parts of a state that must agree. */
interface Parts {
  readonly status: string
  readonly history: History.History
  readonly requests: ReadonlyArray<{
    readonly request: { readonly _tag: string; readonly requestId: string }
    readonly decision?: { readonly _tag: string; readonly requestId: string }
  }>
  readonly grants: ReadonlyArray<{ readonly id: string }>
  readonly calls: ReadonlyArray<Call & { readonly child?: { readonly runId: string } }>
  readonly background?: ReadonlyArray<{
    readonly callId: string
    readonly child?: { readonly runId: string }
    readonly ended?: unknown
  }>
  readonly compaction?: { readonly summary?: Pick<Summary, "to" | "kept"> }
  readonly pinned?: ReadonlyArray<number>
  readonly cancelled?: unknown
  readonly failure?: unknown
}

/** Lists the contradictions of a state. The states of sub-agents are checked on their own. */
export const contradictions = (state: Parts): ReadonlyArray<string> => {
  const found: Array<string> = []
  const require = (holds: boolean, expected: string) => {
    if (!holds) found.push(`Expected ${expected}`)
  }
  const ids = state.requests.map((record) => record.request.requestId)
  require(isDistinct(ids), "requests with different ids")
  require(isDistinct(state.grants.map((grant) => grant.id)), "grants with different ids")
  require(isDistinct(state.calls.map((call) => call.id)), "calls with different ids")
  for (const { request, decision } of state.requests) {
    require(decision === undefined ||
      decision.requestId === request.requestId, `a decision of ${request.requestId}`)
  }
  // The result that was supplied for an external call is recorded in a step of the run.
  const open = new Set(
    state.requests
      .filter(
        ({ decision, request }) =>
          decision === undefined || (request._tag === "external" && decision._tag === "supply")
      )
      .map(({ request }) => request.requestId)
  )
  state.calls.forEach((call, index) => {
    require(call.ordinal === index + 1, `ordinal ${index + 1} for ${call.id}`)
    require((call.status === "settled") ===
      (call.result !== undefined), `a result of ${call.id} if it is settled`)
    if (call.status === "waiting" || call.status === "inDoubt") {
      require(call.requestId !== undefined && open.has(call.requestId), `an undecided request of ${call.id}`)
    }
    if (call.child !== undefined) {
      require(call.target === "agent", `a sub-agent's call to be ${call.id}`)
      require(call.child.runId === call.id, `the run of ${call.id} inside it`)
    }
  })
  const background = state.background ?? []
  require(isDistinct(background.map(({ callId }) => callId)), "sub-agents of different calls")
  for (const { callId, child, ended } of background) {
    require((child === undefined) !== (ended === undefined), `the run or the end of ${callId}`)
    require(child === undefined || child.runId === callId, `the run of ${callId} in the background`)
  }
  if (state.status === "completed" || state.status === "cancelled") {
    require(background.every(
      ({ child }) => child === undefined
    ), `nothing at work in a run that is ${state.status}`)
    require(state.calls.length === 0, `no open calls in a run that is ${state.status}`)
  }
  const size = History.size(state.history)
  const covered = state.compaction?.summary?.to ?? 0
  require(covered <= size &&
    History.at(state.history, covered)?.role !==
      "tool", "a summary that ends before an answer and its results")
  require(isAscending(state.pinned ?? [], size), "pinned messages of the history, in order")
  const kept = state.compaction?.summary?.kept ?? []
  require(isAscending(kept, covered) &&
    kept.every((sequence) =>
      standsAlone(History.at(state.history, sequence))
    ), "kept messages that the summary covers and that are no part of a step")
  require(state.status !== "cancelled" || state.cancelled !== undefined, "the reason of the cancellation")
  require(state.status !== "error" || state.failure !== undefined, "the failure")
  require(isPaired(
    History.toArray(state.history),
    state.calls
  ), "one result for each call, directly after its answer")
  return found
}

/** Whether numbers ascend, and are below a bound. */
const isAscending = (numbers: ReadonlyArray<number>, bound: number): boolean =>
  numbers.every((value, index) => value < bound && (index === 0 || value > numbers[index - 1]!))

const isDistinct = (ids: ReadonlyArray<string>): boolean => new Set(ids).size === ids.length

/** Whether each response is followed by the results of its calls, in order. The calls of the last response may be open. */
const isPaired = (messages: ReadonlyArray<Message>, open: Parts["calls"]): boolean => {
  let expected: ReadonlyArray<string> = []
  let seen = 0
  for (const message of messages) {
    if (message.role === "tool") {
      if (message.callId !== expected[seen]) return false
      seen += 1
      continue
    }
    if (seen < expected.length) return false
    expected =
      message.role === "assistant"
        ? message.content.flatMap((part) => (part._tag === "toolCall" ? [part.callId] : []))
        : []
    seen = 0
  }
  const missing = expected.slice(seen)
  return seen === 0 || missing.length === 0
    ? missing.length === open.length && missing.every((id, index) => id === open[index]!.id)
    : false
}
