/**
 * Handoff: transfers the conversation to another agent.
 */
import * as Effect from "effect/Effect"
import { memberOf } from "../../agent/BoundAgent.ts"
import type { BoundAgent } from "../../agent/Entry.ts"
import { missingTool } from "../../agent/internal/definitions.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { canonicalJson } from "../../domain/internal/json.ts"
import { text } from "../../domain/Message.ts"
import { findCall, type RunState } from "../../domain/RunState.ts"
import { type Policies, policiesFor } from "../../domain/StartOptions.ts"
import { mayStartCall } from "../calls/judgeAgentCall.ts"
import { stateOf, type AgentRun } from "../internal/AgentRun.ts"
import { emit, now } from "../internal/Drive.ts"
import { isPrompted } from "../internal/startOptions.ts"

/** Transfers the conversation to the agent that the call names, and fails the turn's other open calls. */
export const handOff = Effect.fnUntraced(function* (run: AgentRun, callId: ToolCallId) {
  const state = stateOf(run)
  const call = findCall(state, callId)
  const entry = call === undefined ? undefined : run.bound.entries.get(call.name)
  const to = entry?.target === "handoff" ? memberOf(run.bound, entry.to) : undefined
  if (call === undefined) return
  if (to === undefined) {
    const problem = missingTool(state, call)
    return run.drive.addMissing({ id: callId, arguments: call.arguments, problem })
  }
  if (!(yield* mayStartCall(run, callId))) return
  const at = now(run.drive)
  emit(run, {
    _tag: "agent.changed",
    at,
    agent: to.identity,
    ...policiesOf(state, run.bound, to),
    structured: to.output !== undefined
  })
  const { name } = to.agent
  for (const { id, result } of state.calls) {
    if (id === callId || result !== undefined) continue
    const content = [text(`This one was not followed: ${name} has the conversation now.`)]
    emit(run, { _tag: "tool.failed", at, callId: id, content })
  }
  emit(run, { _tag: "tool.completed", at, callId, content: [text(`${name} has the conversation now.`)] })
})

/** The policies that apply to the agent that takes over. */
const policiesOf = ({ policy, startedWith }: RunState, from: BoundAgent, to: BoundAgent): Policies => {
  if (startedWith !== undefined) {
    return policiesFor(startedWith, { policy: to.agent.policy, isPrompted: isPrompted(startedWith, to) })
  }
  // Runs of earlier versions do not record the caller's options: a policy that differs from the agent's counts as the caller's.
  const isGiven = canonicalJson(policy) !== canonicalJson(from.agent.policy)
  return { policy: isGiven ? policy : to.agent.policy }
}
