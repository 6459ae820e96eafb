/**
 * The steps of a history: an answer with its calls and all their results, or a single message. A step is shown or summarized as a whole, so
 * that no call loses its result.
 */
import * as History from "../../domain/History.ts"
import { toolCallParts } from "../../domain/RunState.ts"

/** The messages from `start` up to `end`, which is not included. */
export interface HistoryStep {
  readonly start: number
  readonly end: number
  /** Whether a call of the step has no result yet. */
  readonly isOpen: boolean
}

/** The steps from the message `from` on, which begins a step. */
export const stepsFrom = (history: History.History, from: number): ReadonlyArray<HistoryStep> => {
  const size = History.size(history)
  const steps: Array<HistoryStep> = []
  let start = from
  while (start < size) {
    const message = History.at(history, start)
    let end = start + 1
    while (end < size && History.at(history, end)?.role === "tool") end += 1
    const calls = message?.role === "assistant" ? toolCallParts(message.content).length : 0
    steps.push({ start, end, isOpen: end - start - 1 < calls })
    start = end
  }
  return steps
}
