/**
 * A call whose run, or a run above it, has no time left.
 */
import * as Effect from "effect/Effect"
import { isUsedUp, spent } from "../../domain/Budget.ts"
import { isReleased } from "../../domain/internal/released.ts"
import { text } from "../../domain/Message.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { emit, now, type Scope, statesOf } from "./Drive.ts"
import { askAbove } from "./roomAbove.ts"
import { failRun } from "../steps/subAgents.ts"

/**
 * A call that a decision has released waits for more time: whoever can give it is asked, and where nobody can the root's run fails with
 * the call in its state. Any other call has failed.
 */
export const outOfTime = (scope: Scope, call: ToolCall): Effect.Effect<void> => {
  const line = statesOf(scope)
  const own = line[line.length - 1]!
  const at = now(scope.drive)
  const depth = line.findLastIndex((state) => isUsedUp(state, "wallTime", at))
  const state = line[depth]
  if (state !== undefined && isReleased(own, call)) {
    const limit = state.limits.maxWallMs ?? 0
    const exceeded = { budget: "wallTime", limit, spent: spent(state, "wallTime", at) } as const
    if (askAbove(scope, { depth, exceeded, isPromised: false })) return Effect.void
    if (scope.parent === undefined) return failRun(scope, { _tag: "BudgetExceeded", ...exceeded })
  }
  const not = call.attempt === 0 ? "has not run" : "was not run again"
  const content = [text(`${call.name} ${not}: the wallTime budget is used up.`)]
  emit(scope, { _tag: "tool.failed", at, callId: call.id, content })
  return Effect.void
}
