/**
 * Answering a model's calls about the agents in the background.
 *
 * The agent that has the conversation sees all of them and can wait for them, since what they come to is told to it. Only the agent that
 * started one can send it messages and stop it: another one has neither its authority nor its purpose.
 */
import * as Effect from "effect/Effect"
import type { ToolCallId } from "../../domain/Id.ts"
import { text } from "../../domain/Message.ts"
import { type RunEvent, wrap } from "../../domain/RunEvent.ts"
import {
  type BackgroundRun,
  findCall,
  interruptions,
  isSettled,
  type RunState
} from "../../domain/RunState.ts"
import { names } from "../../agent/internal/agentTools.ts"
import { starterOf } from "../../agent/internal/definitions.ts"
import { emit, now, type Scope, stateOf } from "../internal/Drive.ts"
import { stopAll } from "../internal/failRun.ts"

/** Answers a call about the agents in the background. */
export const settleAgents = Effect.fnUntraced(function* (scope: Scope, callId: ToolCallId) {
  const state = stateOf(scope)
  const call = findCall(state, callId)
  if (call === undefined || isSettled(call)) return
  const done = (said: string, failed = false) =>
    emit(scope, {
      _tag: failed ? "tool.failed" : "tool.completed",
      at: now(scope.drive),
      callId,
      content: [text(said)]
    })
  const args = (call.arguments ?? {}) as {
    readonly agentRun?: string
    readonly agentRuns?: ReadonlyArray<string>
    readonly message?: string
    readonly reason?: string
  }
  const background = state.background ?? []
  if (call.name === names.list) return done(listText(scope, state))
  const known = background.map((entry) => entry.callId).join(", ")
  const unknown = (run: string) =>
    done(
      `There is no agent "${run}" in the background. There ${known === "" ? "is none" : `are: ${known}`}.`,
      true
    )
  if (call.name === names.wait) {
    const missing = args.agentRuns?.find((run) => background.every(({ callId }) => callId !== run))
    if (missing !== undefined) return unknown(missing)
    return done(background.length === 0 ? "There are no agents in the background." : "They have ended.")
  }
  const entry = background.find((entry) => entry.callId === args.agentRun)
  if (entry === undefined) return unknown(args.agentRun ?? "")
  if (entry.child === undefined) return done(`${entry.name} has ended already.`)
  const starter = otherStarter(scope, entry.child)
  if (starter !== undefined) {
    const only = "can send it messages and stop it"
    return done(`${entry.name} works for ${starter}, which started it: only ${starter} ${only}.`, true)
  }
  if (call.name === names.message) {
    const content = [text(args.message ?? "")]
    const event: RunEvent = { _tag: "message.queued", at: now(scope.drive), content }
    emit(scope, wrap(event, [entry.callId]))
    return done(`${entry.name} will read it before its next step.`)
  }
  const reason = args.reason ?? `${state.agent.name} has stopped it.`
  yield* stopAll(scope, [entry.callId], reason)
  return done(`${entry.name} was stopped.`)
})

/** The name of the agent that started a sub-agent, if another one has the conversation now. */
const otherStarter = (scope: Scope, child: RunState): string | undefined => {
  const { bound, first } = scope
  const starter = first === undefined ? undefined : starterOf(first, child)
  return starter === bound ? undefined : (starter?.agent.name ?? child.agentPath.at(-2))
}

const listText = (scope: Scope, { background = [] }: RunState): string =>
  background.length === 0
    ? "There are no agents in the background."
    : background.map((entry) => lineText(scope, entry)).join("\n")

const lineText = (scope: Scope, { callId, child, ended, name }: BackgroundRun): string => {
  if (child === undefined) return `- ${callId}: ${name}, ${ended?.status ?? "ended"}`
  const open = interruptions(child).length
  const doing = open > 0 ? `waits for ${open === 1 ? "a decision" : `${open} decisions`}` : "at work"
  const starter = otherStarter(scope, child)
  const whose = starter === undefined ? "" : `, for ${starter}`
  return `- ${callId}: ${name}${whose}, ${doing}, turn ${child.usage.turns}`
}
