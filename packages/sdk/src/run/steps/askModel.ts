/**
 * One turn's question to the model, within the budgets.
 */
import * as Effect from "effect/Effect"
import { exceeded, isWrappingUp, nearing } from "../../domain/Budget.ts"
import type { Exceeded } from "../../domain/Limits.ts"
import { exhausted } from "../../domain/next.ts"
import { type DriveError, type Scope, emit, isThere, now, stateOf } from "../internal/Drive.ts"
import { failRun } from "../internal/failRun.ts"
import type { Supervisor } from "../internal/Supervisor.ts"
import { callModel } from "./callModel.ts"

/** Asks the model, if there is time left for it; says which budgets are running out afterwards. */
export const askModel = (
  scope: Scope,
  turn: number,
  supervisor: Supervisor
): Effect.Effect<void, DriveError> =>
  Effect.suspend(() => {
    const { drive } = scope
    const before = stateOf(scope)
    const late = isWrappingUp(before) ? undefined : exceeded(before, now(drive))
    if (late !== undefined) return outOfBudget(scope, late, supervisor)
    if (before.queued.length > 0) emit(scope, { _tag: "messages.read", at: now(drive) })
    drive.asking += 1
    return callModel({ scope, turn, supervisor, whenAsked: asked })
  })

const asked = (scope: Scope): void => {
  scope.drive.asking -= 1
  warn(scope)
}

const warn = (scope: Scope): void => {
  const { drive } = scope
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent) {
    if (!isThere(at)) continue
    for (const budget of nearing(stateOf(at), now(drive))) {
      emit(at, { _tag: "budget.nearing", at: now(drive), ...budget })
    }
  }
}

/** Does about a budget what the run's limits and whoever can be asked say. */
const outOfBudget = (
  scope: Scope,
  exceeded: Exceeded,
  supervisor: Supervisor
): Effect.Effect<void, DriveError> => {
  const step = exhausted(stateOf(scope), exceeded)
  if (step._tag === "AskLimit" || step._tag === "AskWrapUp")
    return scope.drive.perform(scope, step, supervisor)
  return step._tag === "Finish" && step.end._tag === "failed" ? failRun(scope, step.end.failure) : Effect.void
}
