/**
 * Makes the request of a model call from the conversation and the prepared context.
 */
import type { PreparedContext } from "../../context/ContextPolicy.ts"
import { isWrappingUp } from "../../domain/Budget.ts"
import type { Message } from "../../domain/Message.ts"
import type { ModelRequest } from "../../model/ModelRequest.ts"
import type { AgentRun } from "./AgentRun.ts"
import { stateOf } from "./AgentRun.ts"
import type { Drive } from "./Drive.ts"
import { memoryMessages } from "./memoryMessages.ts"

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
  const memory = memoryMessages(state)
  const others = memory.length === 0 ? sections : [...memory, ...sections]
  const { agentPath, runId } = state
  const request: Mutable<ModelRequest> = {
    runId,
    sessionId: state.sessionId,
    agentPath,
    turn,
    instructions,
    messages: others.length === 0 ? messages : [...messages, ...others],
    tools: bound.definitions
  }
  if (others.length > 0) request.transientMessages = others.length
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
