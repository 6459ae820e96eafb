/**
 * `next(state)` says what has to happen now. It is pure: the same state always asks for the same step, so that a run goes on
 * exactly where it stood, in whichever process.
 *
 * The order of calls within a turn is decided here. Calls are taken in the order of the answer: contiguous read-only calls
 * run together, any other call runs alone; a side-effecting call never overtakes one that precedes it and is still undecided,
 * a read may.
 *
 * @since 0.1.0
 */
import * as History from "./History.ts"
import type { ToolCallId } from "./Id.ts"
import type { Interruption } from "./Interruption.ts"
import * as Limits from "./Limits.ts"
import type { RunFailure } from "./RunError.ts"
import type { RunState, ToolCall } from "./RunState.ts"
import { interruptions, isSettled, text } from "./RunState.ts"

/** What has to happen now. */
export type Step =
  /** Ask the model; `turn` counts from 1. */
  | { readonly _tag: "CallModel"; readonly turn: number }
  /** Understand what the model asked for: tools, arguments, who has to be asked. */
  | { readonly _tag: "ClassifyCalls"; readonly callIds: ReadonlyArray<ToolCallId> }
  /** Run these calls: several are read-only and run together, one alone may be anything. */
  | { readonly _tag: "SettleToolCalls"; readonly callIds: ReadonlyArray<ToolCallId> }
  /** Start the sub-agent of this call, or go on with it. */
  | { readonly _tag: "ResumeChild"; readonly callId: ToolCallId }
  /** These bodies were started by a process that is gone: find out what became of them. */
  | { readonly _tag: "Reconcile"; readonly callIds: ReadonlyArray<ToolCallId> }
  /** A budget is used up and somebody can be asked. */
  | { readonly _tag: "AskLimit"; readonly exceeded: Limits.Exceeded }
  /** Decode the answer with the agent's output schema. */
  | { readonly _tag: "DecodeOutput"; readonly text: string }
  /** Nothing can happen before one of these is decided. */
  | { readonly _tag: "Hold"; readonly requests: ReadonlyArray<Interruption> }
  /** The run is over. */
  | { readonly _tag: "Finish"; readonly end: End }

/** How a run is over. */
export type End =
  | { readonly _tag: "completed" }
  | { readonly _tag: "cancelled"; readonly reason: string }
  | { readonly _tag: "failed"; readonly failure: RunFailure }

/** What has to happen now. */
export const next = (state: RunState): Step => {
  switch (state.status) {
    case "completed":
      return { _tag: "Finish", end: { _tag: "completed" } }
    case "cancelled":
      return { _tag: "Finish", end: { _tag: "cancelled", reason: state.cancelled?.reason ?? "" } }
    case "error":
      return failed(state.failure ?? { _tag: "RunDefect", description: "unknown" })
    default: {
      const { limits, recoveries = 0 } = state
      if (recoveries > (limits.maxRecoveries ?? Limits.defaults.maxRecoveries)) {
        return failed({ _tag: "WorkersLost", times: recoveries })
      }
      return state.calls.length > 0 ? nextOfCalls(state) : nextOfTurn(state)
    }
  }
}

const failed = (failure: RunFailure): Step => ({ _tag: "Finish", end: { _tag: "failed", failure } })

const stopped = (state: RunState): Step => ({
  _tag: "Finish",
  end: { _tag: "cancelled", reason: state.stop?.reason ?? "" }
})

const nextOfCalls = (state: RunState): Step => {
  const orphans = state.calls.filter((call) => call.status === "started" && call.target !== "agent")
  if (orphans.length > 0) return { _tag: "Reconcile", callIds: orphans.map((call) => call.id) }

  const requested = state.calls.filter((call) => call.status === "requested")
  if (requested.length > 0) {
    if (state.stop !== undefined) return stopped(state)
    const { maxToolCalls } = state.limits
    if (maxToolCalls !== undefined && state.toolCalls > maxToolCalls) {
      return exhausted(state, { budget: "toolCalls", limit: maxToolCalls, spent: state.toolCalls })
    }
    return { _tag: "ClassifyCalls", callIds: requested.map((call) => call.id) }
  }

  const step = runnable(state.calls)
  if (step !== undefined) return step
  return state.stop === undefined ? { _tag: "Hold", requests: interruptions(state) } : stopped(state)
}

const runnable = (calls: ReadonlyArray<ToolCall>): Step | undefined => {
  const reads: Array<ToolCallId> = []
  let undecided = false
  for (const call of calls) {
    if (isSettled(call)) continue
    if (!isRunnable(call)) {
      undecided = true
    } else if (call.target === "tool" && call.safety === "readOnly") {
      reads.push(call.id)
    } else if (!undecided) {
      if (reads.length > 0) break
      return call.target === "agent"
        ? { _tag: "ResumeChild", callId: call.id }
        : { _tag: "SettleToolCalls", callIds: [call.id] }
    }
  }
  return reads.length === 0 ? undefined : { _tag: "SettleToolCalls", callIds: reads }
}

/** A sub-agent that is held is undecided; one with a decision to act on, or left behind by a crash, goes on. */
const isRunnable = (call: ToolCall): boolean =>
  call.target === "agent" && call.child !== undefined
    ? next(call.child)._tag !== "Hold"
    : call.status === "ready"

const nextOfTurn = (state: RunState): Step => {
  const open = interruptions(state)
  if (open.length > 0) return { _tag: "Hold", requests: open }
  if (state.stop !== undefined) return stopped(state)
  const last = History.last(state.history)
  if (last?.role === "assistant") {
    return state.structured
      ? { _tag: "DecodeOutput", text: text(state) }
      : { _tag: "Finish", end: { _tag: "completed" } }
  }
  const refused = refusedTopUp(state)
  if (refused !== undefined) return failed({ _tag: "BudgetExceeded", ...refused })
  const exceeded = Limits.exceeded(state.limits, state.usage)
  return exceeded === undefined
    ? { _tag: "CallModel", turn: state.usage.turns + 1 }
    : exhausted(state, exceeded)
}

const exhausted = (state: RunState, exceeded: Limits.Exceeded): Step => {
  const open = interruptions(state)
  if (open.some((request) => request._tag === "limit")) return { _tag: "Hold", requests: open }
  // An unknown cost is no amount that somebody could top up.
  const unknown = exceeded.budget === "cost" && exceeded.spent < exceeded.limit
  return state.asks && !unknown && refusedTopUp(state) === undefined
    ? { _tag: "AskLimit", exceeded }
    : failed({ _tag: "BudgetExceeded", ...exceeded })
}

/** The budget that somebody refused to top up, unless it has been raised since. */
const refusedTopUp = (state: RunState): Limits.Exceeded | undefined => {
  for (let i = state.requests.length - 1; i >= 0; i--) {
    const { request, decision } = state.requests[i]!
    if (request._tag !== "limit" || request.runId !== state.runId) continue
    return decision?._tag === "deny" && Limits.budgetOf(state.limits, request.budget) === request.limit
      ? { budget: request.budget, limit: request.limit, spent: request.spent }
      : undefined
  }
  return undefined
}
