/**
 * Settles a model's calls about the sub-agents in the background.
 *
 * The agent that has the conversation can list them and wait for them, since it receives their results. Only the agent that started a
 * sub-agent can send it messages and stop it, since only that agent has the authority under which it works.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { BackgroundArguments } from "../../agent/internal/agentTools.ts"
import { starterOf } from "../../agent/internal/definitions.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { text } from "../../domain/Message.ts"
import { wrap } from "../../domain/RunEvent.ts"
import {
  type BackgroundRun,
  findCall,
  interruptions,
  isSettled,
  type RunState
} from "../../domain/RunState.ts"
import { mayStartCall } from "../calls/judgeAgentCall.ts"
import { stateOf, type AgentRun } from "../internal/AgentRun.ts"
import { emit, now } from "../internal/Drive.ts"
import { stopAll } from "../internal/failRun.ts"

/** Settles a call about the sub-agents in the background. */
export const settleAgents = Effect.fnUntraced(function* (run: AgentRun, callId: ToolCallId) {
  const state = stateOf(run)
  const call = findCall(state, callId)
  if (call === undefined || isSettled(call) || !(yield* mayStartCall(run, callId))) return
  const answer = answers[call.name as keyof BackgroundArguments] as Answer<unknown>
  const outcome = yield* Effect.result(answer({ run, state }, call.arguments ?? {}))
  const _tag = Result.isFailure(outcome) ? "tool.failed" : "tool.completed"
  emit(run, { _tag, at: now(run.drive), callId, content: [text(Result.merge(outcome))] })
})

/** The run whose agent made the call. */
interface Asking {
  readonly run: AgentRun
  readonly state: RunState
}

/** Performs a call. Returns the text of its result, or fails with the text of its failure. */
type Answer<Arguments> = (asking: Asking, args: Arguments) => Effect.Effect<string, string>

const answers: { readonly [Name in keyof BackgroundArguments]: Answer<BackgroundArguments[Name]> } = {
  list_agents: ({ run, state }) => Effect.succeed(listText(run, state)),

  wait_for_agent: ({ state: { background = [] } }, { agentRuns }) => {
    const missing = agentRuns?.find((run) => background.every(({ callId }) => callId !== run))
    if (missing !== undefined) return Effect.fail(unknownText(background, missing))
    return Effect.succeed(
      background.length === 0 ? "There are no agents in the background." : "They have ended."
    )
  },

  message_agent: (asking, { agentRun, message }) =>
    withOwn(asking, agentRun, ({ run }, { callId, name }) =>
      Effect.sync(() => {
        const at = now(run.drive)
        emit(run, wrap({ _tag: "message.queued", at, content: [text(message)] }, [callId]))
        return `${name} will read it before its next step.`
      })
    ),

  cancel_agent: (asking, { agentRun, reason }) =>
    withOwn(asking, agentRun, ({ run, state }, { callId, name }) =>
      Effect.as(
        stopAll(run, [callId], reason ?? `${state.agent.name} has stopped it.`),
        `${name} was stopped.`
      )
    )
}

/** Acts on a running sub-agent. Fails if another agent started it. */
const withOwn = (
  asking: Asking,
  agentRun: string,
  act: (asking: Asking, entry: BackgroundRun) => Effect.Effect<string>
): Effect.Effect<string, string> => {
  const { background = [] } = asking.state
  const entry = background.find(({ callId }) => callId === agentRun)
  if (entry === undefined) return Effect.fail(unknownText(background, agentRun))
  const { child, name } = entry
  if (child === undefined) return Effect.succeed(`${name} has ended already.`)
  const starter = otherStarter(asking.run, child)
  if (starter === undefined) return act(asking, entry)
  const only = "can send it messages and stop it"
  return Effect.fail(`${name} works for ${starter}, which started it: only ${starter} ${only}.`)
}

const unknownText = (background: ReadonlyArray<BackgroundRun>, run: string): string => {
  const known = background.map(({ callId }) => callId).join(", ")
  return `There is no agent "${run}" in the background. There ${known === "" ? "is none" : `are: ${known}`}.`
}

/** The name of the agent that started a sub-agent, if another one has the conversation now. */
const otherStarter = (run: AgentRun, child: RunState): string | undefined => {
  const { bound, first } = run
  const starter = first === undefined ? undefined : starterOf(first, child)
  return starter === bound ? undefined : (starter?.agent.name ?? child.agentPath.at(-2))
}

const listText = (run: AgentRun, { background = [] }: RunState): string =>
  background.length === 0
    ? "There are no agents in the background."
    : background.map((entry) => lineText(run, entry)).join("\n")

const lineText = (run: AgentRun, { callId, child, ended, name }: BackgroundRun): string => {
  if (child === undefined) return `- ${callId}: ${name}, ${ended?.status ?? "ended"}`
  const open = interruptions(child).length
  const doing = open > 0 ? `waits for ${open === 1 ? "a decision" : `${open} decisions`}` : "at work"
  const starter = otherStarter(run, child)
  const whose = starter === undefined ? "" : `, for ${starter}`
  return `- ${callId}: ${name}${whose}, ${doing}, turn ${child.usage.turns}`
}
