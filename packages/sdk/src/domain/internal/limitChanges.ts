/**
 * Used-up budgets and changed limits: how a run is wrapped up, and how it continues when a budget is raised.
 */
import { callIdOf } from "../Interruption.ts"
import * as Limits from "../Limits.ts"
import { text } from "../Message.ts"
import type { RunState } from "../RunState.ts"
import { withoutMisses } from "./compacting.ts"
import { appendUser, closeCalls, closeRequest, deliverQueued, deliverMessage, type Event } from "./turn.ts"

/**
 * Records that a sub-agent has used up a budget of this run. Sub-agents and released calls that can go on finish first; then the model of
 * this run is asked to summarize.
 */
export const exhausted = (state: RunState, { budget, limit }: Event<"budget.exhausted">): RunState =>
  state.wrappingUp === undefined ? { ...state, wrappingUp: { budget, limit, due: true } } : state

/** Closes the open calls, and asks the model for a summary, because a budget is used up. */
export const wrapUpAsked = (state: RunState, { at, budget, limit }: Event<"wrapUp.asked">): RunState => ({
  ...appendUser(deliverQueued(closeCalls(unasked(state), [], at)), [text(wrapUpText(budget))], at, "runtime"),
  wrappingUp: { budget, limit }
})

/** Closes the open requests about the calls of the turn. */
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

/** Lets a run continue that wraps up for a budget, if that budget was changed. */
const unwrapUp = (state: RunState, at: number): RunState => {
  const { wrappingUp, ...rest } = state
  if (wrappingUp === undefined) return state
  const { budget, limit } = wrappingUp
  if (Limits.budgetOf(state.limits, budget) === limit) return state
  return wrappingUp.answered === true
    ? deliverMessage(rest, [text(`The ${budget} budget was raised. Go on.`)], at, "runtime")
    : rest
}

/** Changes the limits. Open requests for changed budgets are closed, and the warnings of these budgets may be recorded again. */
export const limitsChanged = (before: RunState, { at, given, limits }: Event<"limits.changed">): RunState => {
  const counted = given?.maxTurns === undefined ? before : withGivenTurns(before)
  const state = limits.maxContextTokens === before.limits.maxContextTokens ? counted : withoutMisses(counted)
  return unwrapUp(
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
}

/** A run whose `maxTurns` is given: all its turns count. */
const withGivenTurns = (state: RunState): RunState => {
  if (state.reportTurns === undefined) return state
  const { reportTurns: _, ...rest } = state
  return rest
}

/** Raises one budget. Its warning may be recorded again. */
export const toppedUp = (state: RunState, budget: Limits.Budget, limit: number, at: number): RunState =>
  unwrapUp(
    {
      ...(budget === "context" ? withoutMisses(state) : state),
      limits: Limits.withBudget(state.limits, budget, limit),
      ...(state.warned === undefined ? {} : { warned: state.warned.filter((warned) => warned !== budget) })
    },
    at
  )
