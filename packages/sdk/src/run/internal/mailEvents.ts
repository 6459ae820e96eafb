/**
 * The events of the decisions and messages that a run takes from its mail.
 */
import * as Result from "effect/Result"
import { decide } from "../../domain/decide.ts"
import type { Decision } from "../../domain/Decision.ts"
import { evolve } from "../../domain/evolve.ts"
import { lineOf, type RunId, type ToolCallId } from "../../domain/Id.ts"
import { defined } from "../../domain/internal/defined.ts"
import { eventOfSubAgent, lineTo } from "../../domain/internal/subAgents.ts"
import { text, type UserPart } from "../../domain/Message.ts"
import { type RunEvent, wrap, unwrap } from "../../domain/RunEvent.ts"
import { findRequest, type RunState, isEnded } from "../../domain/RunState.ts"
import { decidedTooLate } from "../../store/internal/requests.ts"
import type { Mail } from "../Mail.ts"

/**
 * The events of a decision. A decision that no longer applies is recorded by a `request.superseded` event, and an expiry that is found
 * again by none.
 */
export const eventsOf = (state: RunState, decision: Decision): ReadonlyArray<RunEvent> => {
  const { at, requestId } = decision
  const decided = decide(state, decision)
  if (Result.isSuccess(decided)) return decided.success
  // An expiry may be found repeatedly. It is recorded once.
  if (
    decided.failure._tag === "AlreadyDecided" &&
    decided.failure.by === "expiry" &&
    decision.by === "expiry"
  )
    return []
  return [
    wrap(
      { _tag: "request.superseded", at, requestId, reason: decidedTooLate },
      findRequest(state, requestId)?.path ?? []
    )
  ]
}

/** The events of several decisions, each in the state after those before it, and the state after all. */
export const foldDecisions = (from: RunState, decisions: ReadonlyArray<Decision>) => {
  let state = from
  const events = decisions.flatMap((decision) => {
    const decided = eventsOf(state, decision)
    state = decided.reduce<RunState>(evolve, state)
    return decided
  })
  return { events, state }
}

/** The state after these decisions. */
export const withDecisions = (state: RunState, decisions: ReadonlyArray<Decision>): RunState =>
  foldDecisions(state, decisions).state

/**
 * The event that takes a message, in the run that reads it. If the addressed run has ended, the nearest run above it that has not ended
 * reads the message, with a note. A late request to end a run has no content.
 */
export const takeMessage = (
  root: RunState,
  { content, ends, messageId, reopens, to }: Mail["messages"][number],
  at: number
): RunEvent => {
  const path = to === undefined ? [] : lineOf(to).path
  const line = lineTo(root, path)
  const ended = line.findIndex((state, depth) => depth > 0 && isEnded(state))
  const depth = (ended < 0 ? line.length : ended) - 1
  const isLate = to !== undefined && depth < path.length
  const said = isLate ? (ends === true ? [] : [wasFor(to), ...content]) : content
  const sent = defined({ messageId, reopens })
  return wrap({ _tag: "message.queued", at, content: said, ...sent }, path.slice(0, depth))
}

/** The messages to a sub-agent's run that the root's events contain, without the note on those that came after its end. */
export const takenFor = (events: ReadonlyArray<RunEvent>, runId: RunId, path: ReadonlyArray<ToolCallId>) =>
  events.flatMap((wrapped) => {
    const { event } = unwrap(wrapped)
    if (event._tag !== "message.queued" || event.messageId === undefined) return []
    const { at, content, messageId } = event
    if (tookFor(wrapped, runId)) return [{ messageId, at, content: content.slice(1) }]
    return eventOfSubAgent(wrapped, path) === undefined ? [] : [{ messageId, at, content }]
  })

/** Whether an event takes a message that was addressed to this sub-agent's run after its end. */
const tookFor = (wrapped: RunEvent, runId: RunId): boolean => {
  const { event } = unwrap(wrapped)
  if (event._tag !== "message.queued") return false
  const [first] = event.content
  return first?._tag === "text" && first.text === wasFor(runId).text
}

const wasFor = (runId: RunId): Extract<UserPart, { readonly _tag: "text" }> =>
  text(`This message was for the agent ${runId}, whose run had ended:\n\n`)
