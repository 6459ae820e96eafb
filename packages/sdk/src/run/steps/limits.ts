/**
 * Exhausted budgets: opens one `limit` request for each, withdraws the request when the budget has room again, or ends the run that needs
 * more.
 */
import * as Effect from "effect/Effect"
import {
  type NothingLeft,
  exceededAbove,
  exceededByCallsAbove,
  isUsedUp,
  spent
} from "../../domain/Budget.ts"
import { isReleased } from "../../domain/internal/released.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import type { Exceeded } from "../../domain/Limits.ts"
import { text } from "../../domain/Message.ts"
import { onNothingLeft, type Step } from "../../domain/next.ts"
import type { RunFailure } from "../../domain/RunError.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { nextRequestId, statesOf, stateOf, type AgentRun } from "../internal/AgentRun.ts"
import { flush } from "../internal/commit.ts"
import { now, emit } from "../internal/Drive.ts"
import { failRun } from "../internal/failRun.ts"
import type { JournalError } from "../internal/Journal.ts"
import { lastMisfit } from "./decodeOutput.ts"

/** Opens a `limit` request, which asks for more of a budget that is exhausted or whose rest is reserved, or for a larger context. */
export const openLimit = (run: AgentRun, exceeded: Exceeded, why?: string): void => {
  const state = stateOf(run)
  const at = now(run.drive)
  const reason = why ?? (run.bound.output === undefined ? undefined : lastMisfit(state))
  emit(run, {
    _tag: "request.opened",
    at,
    request: {
      _tag: "limit",
      requestId: nextRequestId(run),
      runId: state.runId,
      agentPath: state.agentPath,
      at,
      ...exceeded,
      ...(reason === undefined ? {} : { reason })
    }
  })
}

export const askLimit = (run: AgentRun, exceeded: Exceeded): Effect.Effect<void> =>
  Effect.sync(() => openLimit(run, exceeded))

/** Withdraws `limit` requests whose budgets have room again. */
export const withdrawLimits = (
  run: AgentRun,
  requests: ReadonlyArray<Interruption>
): Effect.Effect<void, JournalError> =>
  Effect.suspend(() => {
    for (const { requestId } of requests) {
      const reason =
        "there is room in the budget again: a sub-agent has not used all that was set aside for it"
      emit(run, { _tag: "request.superseded", at: now(run.drive), requestId, reason })
    }
    // Committed before the next step: the commit takes a withdrawal back if a decision was acknowledged first.
    return flush(run.drive)
  })

/** The runs from the root to this one. */
const lineOf = (run: AgentRun): ReadonlyArray<AgentRun> =>
  run.parent === undefined ? [run] : [...lineOf(run.parent), run]

/**
 * Handles an exhausted budget of `run` or of a run above it. The run that has the budget ends with a summary if its limits say so;
 * otherwise it opens a `limit` request. Returns `false` if the run opens no such requests, or if one was refused.
 */
export const askAbove = (run: AgentRun, nothing: NothingLeft): boolean => {
  const owner = lineOf(run)[nothing.depth]
  if (owner === undefined) return false
  const { budget, limit } = nothing.exceeded
  switch (onNothingLeft(stateOf(owner), nothing)) {
    case "seenTo":
      return true
    case "comesToItsEnd":
      emit(owner, { _tag: "budget.exhausted", at: now(owner.drive), budget, limit })
      return true
    case "asks":
      openLimit(owner, nothing.exceeded)
      return true
    case "refused":
      return false
  }
}

/** Whether the budgets above a sub-agent leave room for its next step. If not, the sub-agent waits for a top-up, or fails. */
export const roomAbove = (run: AgentRun, step: Step): "room" | "waits" | RunFailure => {
  const callsModel = step._tag === "CallModel" || step._tag === "Compact"
  if (run.parent === undefined || (!callsModel && step._tag !== "ClassifyCalls")) return "room"
  const line = statesOf(run.parent)
  const nothing = callsModel
    ? exceededAbove(line, stateOf(run).limits, now(run.drive))
    : exceededByCallsAbove(line)
  if (nothing === undefined) return "room"
  return askAbove(run.parent, nothing) ? "waits" : { _tag: "BudgetExceeded", ...nothing.exceeded }
}

/**
 * Handles a call that is due after the `wallTime` budget is exhausted. A call that a decision released waits for a top-up; if none can be
 * requested, a root's run fails with the call in its state. Every other call fails.
 */
export const outOfTime = (run: AgentRun, call: ToolCall): Effect.Effect<void> =>
  Effect.suspend(() => {
    const line = statesOf(run)
    const own = line[line.length - 1]!
    const at = now(run.drive)
    const depth = line.findLastIndex((state) => isUsedUp(state, "wallTime", at))
    const state = line[depth]
    if (state !== undefined && isReleased(own, call)) {
      const limit = state.limits.maxWallMs ?? 0
      const exceeded = { budget: "wallTime", limit, spent: spent(state, "wallTime", at) } as const
      if (askAbove(run, { depth, exceeded, isPromised: false })) return Effect.void
      if (run.parent === undefined) return failRun(run, { _tag: "BudgetExceeded", ...exceeded })
    }
    const not = call.attempt === 0 ? "has not run" : "was not run again"
    const content = [text(`${call.name} ${not}: the wallTime budget is used up.`)]
    emit(run, { _tag: "tool.failed", at, callId: call.id, content })
    return Effect.void
  })
