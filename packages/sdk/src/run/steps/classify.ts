/**
 * Classifies the calls of an answer: finds the tool, decodes the arguments, and determines whether approval is needed.
 *
 * An invalid call gets a result that describes the problem. Arguments are decoded before approval is asked. An approval rule that fails
 * counts as "ask"; "ask" counts as "deny" in a run that is not interactive.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Delegate } from "../../agent/Entry.ts"
import { decodeArguments } from "../../agent/internal/decoding.ts"
import { describe } from "../../agent/internal/userCode.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { text } from "../../domain/Message.ts"
import { type ToolCall, findCall } from "../../domain/RunState.ts"
import type { DecodedArguments } from "../../tool/internal/decodedArguments.ts"
import type { Question } from "../../tool/Tool.ts"
import { judgeAgentCall } from "../calls/judgeAgentCall.ts"
import { guarded, judgeCall, strictest } from "../calls/judgeCall.ts"
import { classifyTool, deny, describeArguments, emitIfOpen, parse } from "../calls/recordClassification.ts"
import { failWithoutSecret, unstatedIn } from "../calls/secrets.ts"
import { type ToolEntry } from "../calls/userCalls.ts"
import {
  isEnding,
  isStopped,
  nextRequestId,
  isCallOpen,
  stateOf,
  type AgentRun
} from "../internal/AgentRun.ts"
import { emit, now } from "../internal/Drive.ts"

/** Classifies the calls in order. Stops when the run is cancelled or suspended. */
export const classifyAll = Effect.fnUntraced(function* (run: AgentRun, callIds: ReadonlyArray<ToolCallId>) {
  for (const callId of callIds) {
    if (isEnding(run)) return
    const call = findCall(stateOf(run), callId)
    if (call !== undefined) yield* guarded(run, call, classify(run, call))
  }
})

/** Classifies a call: emits its outcome, or the request that it opens. Waits only for user code. */
function* classify(run: AgentRun, call: ToolCall): Effect.fn.Return<void> {
  const entry = run.bound.entries.get(call.name)
  if (entry === undefined) return refuseUnknown(run, call)
  const json = parse(call.argumentsText)
  if (json === undefined) {
    return refuse(
      run,
      call,
      `The arguments for ${call.name} are not valid JSON: they may have been cut off. Call it again with an object.`
    )
  }
  const decoding = decodeArguments(entry, stateOf(run).limits, json)
  const decoded = yield* run.supervisor.run<unknown, unknown>(decoding)
  if (Exit.isFailure(decoded)) {
    if (isStopped(run, decoded.cause)) return
    const why = describe(run.drive.runtime, Cause.squash(decoded.cause))
    return refuse(run, call, `${call.name} does not take these arguments: ${why}`)
  }
  const { value } = decoded
  const args = describeArguments(run, entry, json, value)
  switch (entry.target) {
    case "agent":
    case "agents":
    case "handoff":
      return yield* judgeAgentCall(run, call, entry, entry.target, args)
    case "delegate": {
      const target = (value as Delegate).background === true ? "background" : "agent"
      return yield* judgeAgentCall(run, call, entry, target, args)
    }
    case "question": {
      // A question is a request already, so a rule that asks about it changes nothing.
      const verdict = strictest(run, entry.name, false)
      if (verdict._tag === "deny") return deny(run, call, verdict.message)
      return run.drive.runtime.options.interactive === false
        ? refuse(
            run,
            call,
            "This run is not interactive, so the question was not asked. Go on with what you know, or say what is missing."
          )
        : askQuestion(run, call, entry, args)
    }
    case "tool": {
      // Before anyone is asked about a call that cannot run.
      const unstated = unstatedIn(entry.tool, args.arguments, args.shown)
      if (unstated !== undefined) return failWithoutSecret(run, call, unstated)
      return yield* judgeCall(run, call, entry, { args, value })
    }
  }
}

const refuseUnknown = (run: AgentRun, call: ToolCall): undefined => {
  const names = run.bound.definitions.map(({ name }) => name)
  return refuse(
    run,
    call,
    names.length === 0
      ? `There is no tool "${call.name}", and no other. Answer without calling one.`
      : `There is no tool "${call.name}". The tools are: ${names.join(", ")}.`
  )
}

const refuse = (run: AgentRun, call: ToolCall, message: string): undefined =>
  emitIfOpen(run, { _tag: "tool.failed", at: now(run.drive), callId: call.id, content: [text(message)] })

const askQuestion = (run: AgentRun, call: ToolCall, entry: ToolEntry, args: DecodedArguments): undefined => {
  classifyTool(run, call, entry, args, {})
  if (!isCallOpen(run, call.id)) return
  const state = stateOf(run)
  const { question, options } = args.arguments as typeof Question.Type
  const at = now(run.drive)
  emit(run, {
    _tag: "request.opened",
    at,
    request: {
      _tag: "question",
      requestId: nextRequestId(run),
      runId: state.runId,
      agentPath: state.agentPath,
      at,
      callId: call.id,
      question,
      ...(options === undefined ? {} : { options })
    }
  })
}
