/**
 * Understanding the calls of an answer: which tool, which arguments, and who has to be asked.
 *
 * What the model got wrong becomes a result that tells it so. Arguments are decoded before anybody is asked about them. A
 * judgement that cannot be made counts as "ask", and "ask" where nobody can be asked counts as "deny".
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import type { Delegate, Entry } from "../../agent/Entry.ts"
import { decodeArguments } from "../../agent/internal/decoding.ts"
import { describe } from "../../agent/internal/userCode.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { text } from "../../domain/Message.ts"
import { type ToolCall, findCall } from "../../domain/RunState.ts"
import type { DecodedArguments } from "../../tool/internal/decodedArguments.ts"
import type { Question } from "../../tool/Tool.ts"
import { isEnding, nextRequestId, isCallOpen, stateOf, type AgentRun } from "../internal/AgentRun.ts"
import { emit, now } from "../internal/Drive.ts"
import {
  type Rest,
  allow,
  classifyTool,
  describeArguments,
  guarded,
  judge,
  parse,
  emitIfOpen
} from "../internal/judge.ts"
import { type ToolEntry } from "../internal/userCalls.ts"

/** Classifies the calls one after another; supervised from the first on that takes time. */
export const classifyAll = (run: AgentRun, callIds: ReadonlyArray<ToolCallId>): Effect.Effect<void> =>
  Effect.suspend(() => {
    for (let index = 0; index < callIds.length; index += 1) {
      const rest = classifyOne(run, callIds[index]!)
      if (rest !== undefined) return withOthers(run, rest, callIds.slice(index + 1))
    }
    return Effect.void
  })

const withOthers = (
  run: AgentRun,
  rest: Effect.Effect<void>,
  callIds: ReadonlyArray<ToolCallId>
): Effect.Effect<void> => {
  const others = Effect.forEach(callIds, (callId) => classifyOne(run, callId) ?? Effect.void, {
    discard: true
  })
  return Effect.asVoid(run.supervisor.run(Effect.andThen(rest, others)))
}

const classifyOne = (run: AgentRun, callId: ToolCallId): Effect.Effect<void> | undefined => {
  const call = findCall(stateOf(run), callId)
  return call === undefined || isEnding(run) ? undefined : guarded(run, call, () => classify(run, call))
}

/** Classifies one call: emits its fate, or what has to be decided about it, at once where nobody has to be waited for. */
const classify = (run: AgentRun, call: ToolCall): Rest => {
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
  const decoded: Effect.Effect<unknown, unknown> = decodeArguments(entry, stateOf(run).limits, json)
  return Exit.isExit(decoded)
    ? understand(run, call, entry, json, decoded)
    : understandLater(run, call, entry, json, decoded)
}

const understandLater = (
  run: AgentRun,
  call: ToolCall,
  entry: Entry,
  json: Schema.Json,
  decoding: Effect.Effect<unknown, unknown>
): Rest =>
  Effect.flatMap(
    Effect.exit(decoding),
    (decoded) => understand(run, call, entry, json, decoded) ?? Effect.void
  )

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

const understand = (
  run: AgentRun,
  call: ToolCall,
  entry: Entry,
  json: Schema.Json,
  decoded: Exit.Exit<unknown, unknown>
): Rest => {
  const { drive } = run
  if (Exit.isFailure(decoded)) {
    return refuse(
      run,
      call,
      `${call.name} does not take these arguments: ${describe(drive.runtime, Cause.squash(decoded.cause))}`
    )
  }
  const value: unknown = decoded.value
  const args = describeArguments(run, entry, json, value)

  switch (entry.target) {
    case "agent":
    case "agents":
    case "handoff":
      return allow(run, call, entry.target, args.arguments)
    case "delegate": {
      const target = (value as Delegate).background === true ? "background" : "agent"
      return allow(run, call, target, args.arguments)
    }
    case "question":
      return drive.runtime.options.interactive === false
        ? refuse(
            run,
            call,
            "Nobody can be asked in this run. Go on with what you know, or say what is missing."
          )
        : askQuestion(run, call, entry, args)
    case "tool":
      return judge(run, call, entry, { args, value })
  }
}

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
