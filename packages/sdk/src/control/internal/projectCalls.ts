/**
 * Derives the events of a turn: the model's answer, its calls, their results, and what the turn took.
 */
import * as History from "../../domain/History.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { textOf, type ToolMessage } from "../../domain/Message.ts"
import { findCall, isSettled, type RunState } from "../../domain/RunState.ts"
import type { RuntimeEvent } from "../RuntimeEvent.ts"
import type { Change, ProjectionOptions } from "./Projection.ts"

/** Adds the events of a model's answer to `out`. */
export const answerEvents = (
  { after, at, event, root }: Change,
  { contextTokens }: ProjectionOptions,
  out: Array<RuntimeEvent>
): void => {
  if (event._tag !== "model.answered") return
  const { content, finishReason, profile, usage } = event
  const reasoning = content.map((part) => (part._tag === "reasoning" ? part.text : "")).join("")
  out.push({
    family: "Model",
    _tag: "model.messageFinal",
    ...at,
    text: content.map((part) => (part._tag === "text" ? part.text : "")).join(""),
    ...(reasoning === "" ? {} : { reasoning }),
    finishReason,
    ...(profile === undefined ? {} : { profile })
  })
  for (const { argumentsText, id: callId, name: tool } of after.calls)
    out.push({ family: "Tool", _tag: "tool.callRequested", ...at, callId, tool, arguments: argumentsText })
  out.push({ family: "Metrics", _tag: "metrics.tokenUsage", ...at, call: usage, run: after.usage })
  const limit = contextTokens(root, profile)
  const tokens = usage.inputTokens + usage.outputTokens
  const known = limit === undefined ? {} : { limit }
  out.push({ family: "Metrics", _tag: "metrics.contextUsage", ...at, tokens, ...known })
}

/** Adds `metrics.phaseDurations` to `out` if the event ends a turn, and resets the clock. */
export const turnEndEvents = (
  { after, at, before, clock, event }: Change,
  out: Array<RuntimeEvent>
): void => {
  const wasOpen = event._tag === "model.answered" || (before !== undefined && before.calls.length > 0)
  if (!wasOpen || after.calls.length > 0) return
  const { modelMs, toolsMs, waitingMs } = clock
  out.push({ family: "Metrics", _tag: "metrics.phaseDurations", ...at, modelMs, toolsMs, waitingMs })
  clock.modelMs = 0
  clock.toolsMs = 0
  clock.waitingMs = 0
}

/** Adds the events of calls to `out`: permissions without a request, starts and results. */
export const callEvents = ({ after, at, before, event }: Change, out: Array<RuntimeEvent>): void => {
  if (event._tag === "tool.classified" && event.allowedBy !== undefined && event.allowedBy !== "tool") {
    const { allowedBy: by, callId } = event
    out.push({ family: "Tool", _tag: "tool.approvalSettled", ...at, callId, outcome: "approve", by })
  }
  if (before === undefined || before.calls.length === 0 || before.calls === after.calls) return
  const results = after.calls.length === 0 ? resultsIn(before, after) : undefined
  before.calls.forEach((call, index) => {
    if (isSettled(call)) return
    const { id: callId, name: tool } = call
    const now = findCall(after, callId)
    const result = now === undefined ? results?.get(callId) : now.result
    const of = { ...at, turn: before.usage.turns, callId, tool }
    if (result !== undefined) {
      const { content, outcome } = result
      out.push({ family: "Tool", _tag: "tool.completed", ...of, outcome, text: textOf(content) })
    } else if (now?.status === "started" && now.attempt > call.attempt) {
      const total = before.calls.length
      const done = before.calls.filter((one) => isSettled(one)).length
      const text = `[${index + 1}/${total}] running ${tool}`
      out.push({ family: "Task", _tag: "task.progress", ...at, text, done, total })
      out.push({ family: "Tool", _tag: "tool.started", ...of, attempt: now.attempt })
    }
  })
}

/** The results of the calls of a turn that has ended, from the messages that it added to the history. */
const resultsIn = (before: RunState, after: RunState): ReadonlyMap<ToolCallId, ToolMessage> => {
  const results = new Map<ToolCallId, ToolMessage>()
  const size = History.size(after.history)
  for (let sequence = History.size(before.history); sequence < size; sequence += 1) {
    const message = History.at(after.history, sequence)
    if (message?.role === "tool") results.set(message.callId, message)
  }
  return results
}
