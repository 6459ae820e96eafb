/**
 * Makes the request of a model call from the conversation and the prepared context.
 */
import type { BoundAgent } from "../../agent/Entry.ts"
import type { ContextInput, PreparedContext } from "../../context/ContextPolicy.ts"
import { isWrappingUp } from "../../domain/Budget.ts"
import * as History from "../../domain/History.ts"
import type { Message } from "../../domain/Message.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { ModelRequest } from "../../model/ModelRequest.ts"
import { countMessages, countRequest } from "../../model/Tokenizer.ts"
import { isRecallTool } from "../../tool/RecallTool.ts"
import type { AgentRun } from "./AgentRun.ts"
import { stateOf } from "./AgentRun.ts"
import type { Drive } from "./Drive.ts"

/** The input of the context policy. */
export const contextInput = (
  run: AgentRun,
  instructions: string,
  sections: ReadonlyArray<Message> = []
): ContextInput => {
  const { bound, drive } = run
  const state = stateOf(run)
  const { history, limits } = state
  const messages = History.toArray(history)
  const recall = recallOf(bound)
  return {
    instructions,
    messages,
    promptAt: promptAtOf(state, messages),
    ...(recall === undefined ? {} : { recall }),
    limits,
    ...roomOf(run),
    ...(sections.length === 0 ? {} : { sections }),
    countTokens: (context) =>
      countRequest(drive.runtime.tokenizer, { ...context, tools: bound.definitions }) +
      (sections.length === 0 ? 0 : countMessages(drive.runtime.tokenizer, sections))
  }
}

/** The name of the agent's tool that reads contents again. */
const recallOf = ({ entries }: BoundAgent): string | undefined => {
  for (const entry of entries.values()) if ("tool" in entry && isRecallTool(entry.tool)) return entry.name
  return undefined
}

/** The index of the message that began the run. */
const promptAtOf = ({ parent, promptAt, startedAt }: RunState, messages: ReadonlyArray<Message>): number => {
  if (promptAt !== undefined || parent === undefined) return promptAt ?? 0
  // A run of an earlier version: the messages of earlier runs are older than its start.
  return messages.findIndex((message) => message.role === "user" && message.at >= startedAt)
}

/** The request of a model call; `undefined` if the policy, which may be written without types, did not return a context. */
export const requestOf = (
  run: AgentRun,
  turn: number,
  prepared: PreparedContext,
  sections: ReadonlyArray<Message> = []
): ModelRequest | undefined => {
  const { instructions, messages } = (prepared ?? {}) as Partial<PreparedContext>
  if (typeof instructions !== "string" || !Array.isArray(messages)) return undefined
  const { drive, bound } = run
  const state = stateOf(run)
  const { profile, settings } = bound.agent.options
  const { onUpdate } = drive
  const { agentPath, runId } = state
  const request: Mutable<ModelRequest> = {
    runId,
    sessionId: state.sessionId,
    agentPath,
    turn,
    instructions,
    messages: sections.length === 0 ? messages : [...messages, ...sections],
    tools: bound.definitions
  }
  if (sections.length > 0) request.transientMessages = sections.length
  if (bound.output !== undefined) {
    request.output = { name: bound.agent.name, schema: bound.output.jsonSchema }
  }
  if (profile !== undefined) request.profile = profile
  // A summary may call no tools. They are sent all the same, since the history contains their calls.
  if (isWrappingUp(state)) request.settings = { ...settings, toolChoice: "none" }
  else if (settings !== undefined) request.settings = settings
  request.onFallback = fallbackOf(drive, request)
  if (onUpdate !== undefined) request.onRetry = retryOf(drive, request)
  request["~waits"] = (stop) => {
    waiting.add(request)
    const unlink = drive.suspension?.soon.onCancel(stop)
    return (hasTurn) => {
      unlink?.()
      if (hasTurn) waiting.delete(request)
    }
  }
  return request
}

/** The requests that wait for their turn under a rate limit, or were stopped while they did. */
const waiting = new WeakSet<ModelRequest>()

/** Whether a request was not sent, because its turn under a rate limit has not come. */
export const isUnsent = (request: ModelRequest): boolean => waiting.has(request)

type Mutable<A> = {
  -readonly [Key in keyof A]: A[Key]
}

const retryOf =
  (
    drive: Drive,
    { agentPath, runId: agentRunId, turn }: ModelRequest
  ): NonNullable<ModelRequest["onRetry"]> =>
  (retry) =>
    drive.onUpdate?.({ _tag: "retry", runId: drive.state.runId, agentRunId, agentPath, turn, ...retry })

const fallbackOf =
  (
    drive: Drive,
    { agentPath, runId: agentRunId, turn }: ModelRequest
  ): NonNullable<ModelRequest["onFallback"]> =>
  (reason) =>
    drive.onUpdate?.({ _tag: "fallback", runId: drive.state.runId, agentRunId, agentPath, turn, reason })

/** The model's context size and the tokens reserved for its answer, if they are known. */
const roomOf = ({ bound, drive }: AgentRun): Pick<ContextInput, "contextTokens" | "reservedTokens"> => {
  const { profile, settings } = bound.agent.options
  const contextTokens: unknown = drive.runtime.model.contextTokens?.(profile)
  if (contextTokens !== undefined && typeof contextTokens !== "number") {
    throw new TypeError("the model client's contextTokens did not return a number")
  }
  const reservedTokens = settings?.maxOutputTokens
  if (reservedTokens === undefined) return contextTokens === undefined ? nothingKnown : { contextTokens }
  return contextTokens === undefined ? { reservedTokens } : { contextTokens, reservedTokens }
}

const nothingKnown = {}
