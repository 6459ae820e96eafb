/**
 * What happens to the budgets of a run: time at work, more of something, coming to an end.
 */
import * as Limits from "../Limits.ts"
import { text } from "../Message.ts"
import type { RunEvent } from "../RunEvent.ts"
import type { RunState } from "../RunState.ts"
import { appendUser, closeCalls, closeRequest, flush, say } from "./turn.ts"

type Event<Tag extends RunEvent["_tag"]> = Extract<RunEvent, { readonly _tag: Tag }>

/** The same for a run and for every sub-agent in it that has not ended. */
const throughout = (state: RunState, f: (state: RunState) => RunState): RunState => {
  const after = f(state)
  const { background, calls } = after
  return {
    ...after,
    ...(calls.some(({ child }) => child !== undefined)
      ? {
          calls: calls.map((call) =>
            call.child === undefined ? call : { ...call, child: throughout(call.child, f) }
          )
        }
      : {}),
    ...(background === undefined
      ? {}
      : {
          background: background.map((entry) =>
            entry.child === undefined ? entry : { ...entry, child: throughout(entry.child, f) }
          )
        })
  }
}

/** Nobody works on it any more: the time since somebody did is booked. */
export const paused = (state: RunState, at: number): RunState =>
  throughout(state, (run) => {
    const { workingSince, ...rest } = run
    return workingSince === undefined
      ? run
      : { ...rest, workedMs: (run.workedMs ?? 0) + Math.max(0, at - workingSince) }
  })

/** Somebody works on it again. What a process that died has spent on it is not known, and not counted. */
export const resumed = (state: RunState, at: number): RunState =>
  throughout(state, (run) => ({ ...run, workingSince: at }))

/** A budget is used up: whatever was still to be called is not, and the model says how far it has come. */
export const wrapUpAsked = (state: RunState, { at, budget, limit }: Event<"wrapUp.asked">): RunState => ({
  ...appendUser(flush(closeCalls(state, [], at)), [text(wrapUpText(budget))], at, "runtime"),
  wrappingUp: { budget, limit }
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
    ? say(rest, [text(`The ${budget} budget was raised. Go on.`)], at, "runtime")
    : rest
}

/** A budget that was changed otherwise needs no decision any more. It is told again when it is running out. */
export const limitsChanged = (state: RunState, { at, limits }: Event<"limits.changed">): RunState =>
  unwrapUp(
    {
      ...state,
      limits,
      ...(state.warned === undefined
        ? {}
        : {
            warned: state.warned.filter(
              (told) => Limits.budgetOf(limits, told) === Limits.budgetOf(state.limits, told)
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

/** There is more of one budget. It is told again when it is running out. */
export const toppedUp = (state: RunState, budget: Limits.Budget, limit: number, at: number): RunState =>
  unwrapUp(
    {
      ...state,
      limits: Limits.withBudget(state.limits, budget, limit),
      ...(state.warned === undefined ? {} : { warned: state.warned.filter((told) => told !== budget) })
    },
    at
  )
