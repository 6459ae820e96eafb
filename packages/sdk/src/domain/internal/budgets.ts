/**
 * What happens to the budgets of a run: time at work, more of something, coming to an end.
 */
import { callIdOf } from "../Interruption.ts"
import * as Limits from "../Limits.ts"
import { text } from "../Message.ts"
import type { RunState } from "../RunState.ts"
import { appendUser, closeCalls, closeRequest, deliverQueued, deliverMessage, type Event } from "./turn.ts"

/** Changes a run and the sub-agents in it alike, down to those that `isIn` leaves out. */
export const inTree = (
  state: RunState,
  f: (state: RunState) => RunState,
  isIn: (child: RunState) => boolean = () => true
): RunState => {
  const after = f(state)
  const { background, calls } = after
  // Most runs have no sub-agents: nothing is copied for those.
  const hasChildren = calls.some(({ child }) => child !== undefined)
  if (background === undefined && !hasChildren) return after
  const inside = <A extends { readonly child?: RunState }>(holder: A): A =>
    holder.child === undefined || !isIn(holder.child)
      ? holder
      : { ...holder, child: inTree(holder.child, f, isIn) }
  return {
    ...after,
    ...(hasChildren ? { calls: calls.map(inside) } : {}),
    ...(background === undefined ? {} : { background: background.map(inside) })
  }
}

/** No process works on it any more: its time at work is booked. */
export const paused = (state: RunState, at: number): RunState =>
  inTree(state, (run) => {
    const { workingSince, ...rest } = run
    if (workingSince === undefined) return run
    return Object.assign(rest, { workedMs: (run.workedMs ?? 0) + Math.max(0, at - workingSince) })
  })

/**
 * Somebody works on it again; on a sub-agent that is held only when that is resumed itself. What a process that died has spent on
 * it is not known, and not counted.
 */
export const resumed = (state: RunState, at: number): RunState =>
  inTree(
    state,
    (run) => ({ ...run, workingSince: at }),
    ({ status }) => status === "running"
  )

/** A sub-agent has used a budget up: what is under way comes to an end first, then the model says how far it has come. */
export const exhausted = (state: RunState, { budget, limit }: Event<"budget.exhausted">): RunState =>
  state.wrappingUp === undefined ? { ...state, wrappingUp: { budget, limit, due: true } } : state

/** A budget is used up: whatever was still to be called is not, and the model says how far it has come. */
export const wrapUpAsked = (state: RunState, { at, budget, limit }: Event<"wrapUp.asked">): RunState => ({
  ...appendUser(deliverQueued(closeCalls(unasked(state), [], at)), [text(wrapUpText(budget))], at, "runtime"),
  wrappingUp: { budget, limit }
})

/** Nobody needs to decide about the calls of the turn any more. */
const unasked = (state: RunState): RunState => ({
  ...state,
  requests: state.requests.map((record) =>
    state.calls.some(({ id }) => id === callIdOf(record.request))
      ? closeRequest(record, "the run comes to its end")
      : record
  )
})

const wrapUpText = (budget: Limits.Budget): string =>
  `The ${budget} budget is used up. No tool can be called any more. Say what has been achieved, what is left to do, and what whoever goes on should know.`

/** There may be more of the budget for which the model was asked to come to an end: then it goes on. */
const unwrapUp = (state: RunState, at: number): RunState => {
  const { wrappingUp, ...rest } = state
  if (wrappingUp === undefined) return state
  const { budget, limit } = wrappingUp
  if (Limits.budgetOf(state.limits, budget) === limit) return state
  return wrappingUp.answered === true
    ? deliverMessage(rest, [text(`The ${budget} budget was raised. Go on.`)], at, "runtime")
    : rest
}

/** A budget that was changed otherwise needs no decision any more. A warning is recorded again when it is running out. */
export const limitsChanged = (state: RunState, { at, given, limits }: Event<"limits.changed">): RunState =>
  unwrapUp(
    {
      ...state,
      limits,
      ...(state.startedWith === undefined || given === undefined
        ? {}
        : { startedWith: { ...state.startedWith, limits: { ...state.startedWith.limits, ...given } } }),
      ...(state.warned === undefined
        ? {}
        : {
            warned: state.warned.filter(
              (warned) => Limits.budgetOf(limits, warned) === Limits.budgetOf(state.limits, warned)
            )
          }),
      requests: state.requests.map((record) =>
        record.request._tag === "limit" &&
        Limits.budgetOf(limits, record.request.budget) !== record.request.limit
          ? closeRequest(record, "the limits were changed")
          : record
      )
    },
    at
  )

/** There is more of one budget. A warning is recorded again when it is running out. */
export const toppedUp = (state: RunState, budget: Limits.Budget, limit: number, at: number): RunState =>
  unwrapUp(
    {
      ...state,
      limits: Limits.withBudget(state.limits, budget, limit),
      ...(state.warned === undefined ? {} : { warned: state.warned.filter((warned) => warned !== budget) })
    },
    at
  )
