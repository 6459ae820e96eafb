/**
 * Taking a message into the run that reads it: its recipient, or, where that has ended since it was sent, the nearest run above it. Nothing
 * is appended to a run behind its end.
 */
import { lineOf, type RunId } from "../../domain/Id.ts"
import { lineTo } from "../../domain/internal/subAgents.ts"
import { text, type UserPart } from "../../domain/Message.ts"
import { type RunEvent, unwrap, wrap } from "../../domain/RunEvent.ts"
import { isEnded, type RunState } from "../../domain/RunState.ts"
import type { Mail } from "../Mail.ts"

/** The event that takes a message, in the run that reads it. A request to end a run that has ended says nothing. */
export const takeMessage = (
  root: RunState,
  { content, ends, messageId, to }: Mail["messages"][number],
  at: number
): RunEvent => {
  const path = to === undefined ? [] : lineOf(to).path
  const line = lineTo(root, path)
  const ended = line.findIndex((state, depth) => depth > 0 && isEnded(state))
  const depth = (ended < 0 ? line.length : ended) - 1
  const isLate = to !== undefined && depth < path.length
  const said = isLate ? (ends === true ? [] : [wasFor(to), ...content]) : content
  const sent = messageId === undefined ? {} : { messageId }
  return wrap({ _tag: "message.queued", at, content: said, ...sent }, path.slice(0, depth))
}

/** Whether an event takes a message that was for the run of this sub-agent, which had ended. */
export const tookFor = (wrapped: RunEvent, runId: RunId): boolean => {
  const { event } = unwrap(wrapped)
  if (event._tag !== "message.queued") return false
  const [first] = event.content
  return first?._tag === "text" && first.text === wasFor(runId).text
}

const wasFor = (runId: RunId): Extract<UserPart, { readonly _tag: "text" }> =>
  text(`This message was for the agent ${runId}, whose run had ended:\n\n`)
