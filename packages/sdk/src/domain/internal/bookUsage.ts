/**
 * Books tokens and cost: of a run's model calls, of charges without an answer, and of its sub-agents.
 */
import { type RunEvent, unwrap } from "../RunEvent.ts"
import type { RunState } from "../RunState.ts"
import type { ModelUsage } from "../Usage.ts"
import * as Usage from "../Usage.ts"

/** Books an answered model call, which is a turn of the run. */
export const bookTurn = (
  { sessionUsage, usage }: RunState,
  call: ModelUsage
): Pick<RunState, "sessionUsage" | "usage"> => {
  const after = Usage.addModelCall(usage, call)
  // Most runs are the first of their session: one object for both totals.
  return {
    usage: after,
    sessionUsage: sessionUsage === usage ? after : Usage.addModelCall(sessionUsage, call)
  }
}

/** Books usage that is no turn of the run: of a sub-agent, or of a model call without an answer. */
export const bookUsage = (state: RunState, usage: ModelUsage): RunState => {
  const book = (total: Usage.SessionUsage) => ({ ...Usage.addModelCall(total, usage), turns: total.turns })
  return { ...state, usage: book(state.usage), sessionUsage: book(state.sessionUsage) }
}

/**
 * Books the usage in an event of a sub-agent for the run that started it, too. Turns and tool calls of the sub-agent count in `below` of
 * that run, apart from the run's own.
 */
export const bookChild = (
  state: RunState,
  event: RunEvent,
  before: RunState | undefined,
  after: RunState
): RunState => {
  const { event: inside } = unwrap(event)
  if (inside._tag === "model.charged") return bookUsage(state, inside.usage)
  if (inside._tag === "context.compacted")
    return inside.usage === undefined ? state : bookUsage(state, inside.usage)
  if (inside._tag !== "model.answered") return state
  const { turns = 0, toolCalls = 0 } = state.below ?? {}
  // The calls of an answer are not all made: a run that wraps up makes none.
  const calls = before === undefined ? 0 : madeIn(after) - madeIn(before)
  return { ...bookUsage(state, inside.usage), below: { turns: turns + 1, toolCalls: toolCalls + calls } }
}

const madeIn = ({ below, toolCalls }: RunState): number => toolCalls + (below?.toolCalls ?? 0)
