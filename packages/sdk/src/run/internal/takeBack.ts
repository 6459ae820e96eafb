/**
 * Taking back what a store refuses: the withdrawal of a request that was decided before the commit.
 *
 * A run withdraws requests when it comes to its end, or when there is room in a budget again. A decision that was acknowledged meanwhile
 * counts: the store refuses the commit, the withdrawal is taken out of it, and everything else in it, such as results of bodies, is
 * committed. The run reads the decision before its next step.
 */
import type { Decision } from "../../domain/Decision.ts"
import { evolve } from "../../domain/evolve.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { type RunEvent, unwrap } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"

/** The staged events without the withdrawals that a decision came before; `undefined` where there are none. */
export const withoutWithdrawn = (
  staged: ReadonlyArray<RunEvent>,
  decisions: ReadonlyArray<Decision>
): ReadonlyArray<RunEvent> | undefined => {
  const decided = new Set<string>(decisions.map(({ requestId }) => requestId))
  const runs = new Set<string>()
  for (const wrapped of staged) {
    const { event, path } = unwrap(wrapped)
    if (isWithdrawal(event) && decided.has(event.requestId)) runs.add(keyOf(path))
  }
  if (runs.size === 0) return undefined
  return staged.filter((wrapped) => {
    const { event, path } = unwrap(wrapped)
    return !runs.has(keyOf(path)) || !(isWithdrawal(event) || event._tag === "wrapUp.asked")
  })
}

type Withdrawal = Extract<RunEvent, { readonly _tag: "request.superseded" }>

const isWithdrawal = (event: RunEvent): event is Withdrawal =>
  event._tag === "request.superseded" && event.by === undefined

const keyOf = (path: ReadonlyArray<ToolCallId>): string => path.join(" ")

/** The states after each event, in order. */
export const foldEach = (from: RunState, events: ReadonlyArray<RunEvent>): ReadonlyArray<RunState> => {
  const states: Array<RunState> = []
  for (const event of events) states.push(evolve(states.at(-1) ?? from, event))
  return states
}
