/**
 * The request of a model call: the context that the policy makes of the conversation, and what the client is asked with it.
 */
import type { ContextInput, PreparedContext } from "../../context/ContextPolicy.ts"
import { isWrappingUp } from "../../domain/Budget.ts"
import * as History from "../../domain/History.ts"
import type { ModelRequest } from "../../model/ModelRequest.ts"
import { countRequest } from "../../model/Tokenizer.ts"
import type { AgentRun } from "./AgentRun.ts"
import { stateOf } from "./AgentRun.ts"
import type { Drive } from "./Drive.ts"

/** What the context policy is given. */
export const contextInput = (run: AgentRun, instructions: string): ContextInput => {
  const { bound, drive } = run
  const { history, limits } = stateOf(run)
  return {
    instructions,
    messages: History.toArray(history),
    limits,
    ...roomOf(run),
    countTokens: (context) => countRequest(drive.runtime.tokenizer, { ...context, tools: bound.definitions })
  }
}

/** `undefined` where the policy, maybe written without types, has returned no context. */
export const requestOf = (
  run: AgentRun,
  turn: number,
  prepared: PreparedContext
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
    messages,
    tools: bound.definitions
  }
  if (bound.output !== undefined) {
    request.output = { name: bound.agent.name, schema: bound.output.jsonSchema }
  }
  if (profile !== undefined) request.profile = profile
  // Who is asked to come to an end is shown the tools, which the history speaks of, and may call none.
  if (isWrappingUp(state)) request.settings = { ...settings, toolChoice: "none" }
  else if (settings !== undefined) request.settings = settings
  if (onUpdate !== undefined) request.onRetry = retryOf(drive, request)
  return request
}

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

/** What is known of the room that the model has. */
const roomOf = ({ bound, drive }: AgentRun): Pick<ContextInput, "contextTokens" | "reservedTokens"> => {
  const { profile, settings } = bound.agent.options
  const contextTokens: unknown = drive.runtime.model.contextTokens?.(profile)
  if (contextTokens !== undefined && typeof contextTokens !== "number") {
    throw new TypeError("the model client has not returned a number of tokens")
  }
  const reservedTokens = settings?.maxOutputTokens
  if (reservedTokens === undefined) return contextTokens === undefined ? nothingKnown : { contextTokens }
  return contextTokens === undefined ? { reservedTokens } : { contextTokens, reservedTokens }
}

const nothingKnown = {}
