/**
 * Taking back what a store refuses because a decision was acknowledged before the commit: the withdrawal of its request, or the end of
 * the run.
 *
 * A run withdraws requests when it comes to its end, or when there is room in a budget again. Such a withdrawal is taken out of the
 * commit, and everything else in it, such as results of bodies, is committed. The run reads the decision before its next step. A run that
 * ends has no next step: the decision is put before its end, in the same commit.
 */
import type { Decision } from "../../domain/Decision.ts"
import { evolve } from "../../domain/evolve.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { type RunEvent, unwrap } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"
import { isRecording, requestChanges } from "../../store/internal/requests.ts"
import { cancellation } from "./cancellation.ts"
import { foldDecisions } from "./eventsOf.ts"

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

/**
 * The staged events with these decisions before the end of the run among them; `undefined` where there is no end, or where it comes after
 * them already. `from` is the state before the events.
 */
export const endedAfter = (
  from: RunState,
  staged: ReadonlyArray<RunEvent>,
  decisions: ReadonlyArray<Decision>
): ReadonlyArray<RunEvent> | undefined => {
  const changes = requestChanges(staged)
  const unread = decisions.filter(
    ({ requestId }) => !changes.some((change) => isRecording(change, requestId))
  )
  const last = staged.at(-1)
  const isCancelled = last?._tag === "run.cancelled"
  if (unread.length === 0 || !(isCancelled || last?._tag === "run.failed")) return undefined
  const isBefore = (event: RunEvent) => !(isCancelled && isOfCancellation(event, last))
  const events = staged.slice(0, staged.slice(0, -1).findLastIndex(isBefore) + 1)
  const decided = foldDecisions(foldEach(from, events).at(-1) ?? from, unread)
  const end = isCancelled ? cancellation(decided.state, last.at, last.reason) : [last]
  return [...events, ...decided.events, ...end]
}

/** Whether a sub-agent was cancelled with its lead by an event. */
const isOfCancellation = (wrapped: RunEvent, { at, reason }: Cancelled): boolean => {
  const { event, path } = unwrap(wrapped)
  if (path.length === 0 || event.at !== at) return false
  return isWithdrawal(event) || (event._tag === "run.cancelled" && event.reason === reason)
}

type Cancelled = Extract<RunEvent, { readonly _tag: "run.cancelled" }>

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
