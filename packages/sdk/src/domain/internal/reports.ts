/**
 * The reports of sub-agents in the background: the messages with which the run that started one learns of its end.
 */
import * as History from "../History.ts"
import type { ToolCallId } from "../Id.ts"
import { type Message, textOf } from "../Message.ts"
import { waitName } from "../next.ts"
import type { AnsweredPart } from "../RunEvent.ts"
import type { RunState } from "../RunState.ts"

/** The text with which each report of a sub-agent begins. */
export const reportStart = ({
  callId,
  name
}: {
  readonly callId: ToolCallId
  readonly name: string
}): string => `The agent ${name} (${callId}) has `

/**
 * Whether a turn only takes reports: its model was called with at least one report and with nothing else than reports and results of
 * `wait_for_agent`, and its response calls nothing but `wait_for_agent`.
 *
 * **Details**
 *
 * There are at most as many such turns as sub-agents in the background: each takes a report that no turn took before, and starts none.
 */
export const onlyTakesReports = (state: RunState, response: ReadonlyArray<AnsweredPart>): boolean => {
  if (state.background === undefined) return false
  if (response.some((part) => part._tag === "toolCall" && part.name !== waitName)) return false
  let reports = 0
  for (let sequence = History.size(state.history) - 1; sequence >= 0; sequence -= 1) {
    const message = History.at(state.history, sequence)
    if (message === undefined || message.role === "assistant") break
    if (isReport(message, state.background)) reports += 1
    else if (message.role === "user" || message.name !== waitName) return false
  }
  return reports > 0
}

const isReport = (message: Message, background: NonNullable<RunState["background"]>): boolean => {
  if (message.role !== "user" || message.origin !== "runtime") return false
  const said = textOf(message.content)
  return background.some((entry) => entry.ended !== undefined && said.startsWith(reportStart(entry)))
}
