/**
 * The budgets above a sub-agent: whether they leave room for its next step, and whoever can give more of one being asked, once.
 */
import { exceededAbove, exceededByCallsAbove, type NothingLeft } from "../../domain/Budget.ts"
import { onNothingLeft, type Step } from "../../domain/next.ts"
import type { RunFailure } from "../../domain/RunError.ts"
import { emit, now, type Scope, stateOf, statesOf } from "./Drive.ts"
import { openLimit } from "./openLimit.ts"

/** The runs from the root to this one. */
const lineOf = (scope: Scope): ReadonlyArray<Scope> =>
  scope.parent === undefined ? [scope] : [...lineOf(scope.parent), scope]

/**
 * Sees to a budget of a run, `scope` or one above it, of which nothing is left: the run comes to its end first where it is to say
 * how far it has come, else somebody is asked for more. `false` where nobody can be asked, or has said no.
 */
export const askAbove = (scope: Scope, nothing: NothingLeft): boolean => {
  const owner = lineOf(scope)[nothing.depth]
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

/** What the budgets above a sub-agent mean for its next step: there is room for it, it waits, or it fails. */
export const roomAbove = (scope: Scope, step: Step): "room" | "waits" | RunFailure => {
  if (scope.parent === undefined || (step._tag !== "CallModel" && step._tag !== "ClassifyCalls"))
    return "room"
  const line = statesOf(scope.parent)
  const nothing =
    step._tag === "CallModel"
      ? exceededAbove(line, stateOf(scope).limits, now(scope.drive))
      : exceededByCallsAbove(line)
  if (nothing === undefined) return "room"
  return askAbove(scope.parent, nothing) ? "waits" : { _tag: "BudgetExceeded", ...nothing.exceeded }
}
