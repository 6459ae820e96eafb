/**
 * The options that a new run begins with: those that its caller gives, those of the run that it continues, and the profile's.
 */
import * as Effect from "effect/Effect"
import { isAgent, answersTo, memberOf } from "../../agent/BoundAgent.ts"
import type { BoundAgent } from "../../agent/Entry.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { ApprovalPolicy } from "../../domain/ApprovalPolicy.ts"
import type { LimitChanges } from "../../domain/Limits.ts"
import { AgentNotFound } from "../../domain/RunError.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { StartOptions } from "../../domain/StartOptions.ts"

/** What a caller may give to a new run, in place of what its agent has or the run before was given. */
export interface LimitsAndPolicy {
  readonly limits?: LimitChanges
  readonly policy?: ApprovalPolicy
}

/** Limits that bound a run beside its caller's, and that no other run inherits: the share that a conductor sets aside. */
export interface Allotted {
  readonly "~allotted"?: LimitChanges
}

/** The options of a run that continues none. */
export const startOptions = (runtime: Runtime, { limits, policy }: LimitsAndPolicy): StartOptions => ({
  ...(policy === undefined ? {} : { policy, ...given(runtime) }),
  ...(limits === undefined ? {} : { limits }),
  ...profileOptions(runtime)
})

/** The options of a run that continues another one: what is not given is inherited, as it was given to that one. */
export const inheritedOptions = (
  runtime: Runtime,
  { limits, policy }: LimitsAndPolicy,
  { startedWith = {} }: Pick<RunState, "startedWith">
): StartOptions => {
  const caller =
    policy !== undefined
      ? { policy, ...given(runtime) }
      : startedWith.policy === undefined
        ? {}
        : {
            policy: startedWith.policy,
            policyFor: startedWith.policyFor ?? "",
            ...(startedWith.policyPeers === undefined ? {} : { policyPeers: startedWith.policyPeers })
          }
  const changes =
    limits === undefined
      ? startedWith.limits
      : startedWith.limits === undefined
        ? limits
        : { ...startedWith.limits, ...limits }
  return { ...caller, ...(changes === undefined ? {} : { limits: changes }), ...profileOptions(runtime) }
}

/** Which agent a caller's policy is given for: the prompted one, also where another one answers that has taken over before. */
const given = ({ bound }: Runtime) => {
  const { agent, identity } = bound
  return { policyFor: agent.name, ...(identity.peers === undefined ? {} : { policyPeers: identity.peers }) }
}

/** Whether a caller's policy was given for this agent. */
export const isPrompted = (
  { policyFor, policyPeers }: StartOptions,
  { agent }: Pick<BoundAgent, "agent">
): boolean => policyFor !== undefined && isAgent(agent, policyFor, policyPeers)

/** The policy of the capability profile in force. */
export const profileOptions = ({ profileName, profiles }: Runtime): StartOptions => {
  const profilePolicy = profiles.get(profileName)?.policy
  return profilePolicy === undefined ? {} : { profilePolicy }
}

/** What decides it. */
interface Question {
  /** The run before, whose agent has the conversation. */
  readonly previous?: RunState | undefined
  /** The agent that run was started under, where that is known. */
  readonly under?: string
  /** Whom the caller wants to answer. */
  readonly answeredBy?: string | undefined
}

/**
 * The agent that a new run begins with: the runtime's own, or one that it hands over to. A session that another runtime's agent has is
 * gone on with by this one, as its caller said by choosing it.
 *
 * **Errors**
 *
 * - `AgentNotFound` — the runtime's agent does not hand over to whoever is named, or no longer to whoever has the conversation.
 */
export const answering = (
  { bound }: Runtime,
  { answeredBy, previous, under }: Question
): Effect.Effect<BoundAgent, AgentNotFound> => {
  const name = answeredBy ?? previous?.agent.name
  if (name === undefined) return Effect.succeed(bound)
  const found = answersTo(bound.agent, name) ? bound : memberOf(bound, name)
  if (found !== undefined) return Effect.succeed(found)
  const isAnothers = answeredBy === undefined && under !== undefined && !answersTo(bound.agent, under)
  if (isAnothers) return Effect.succeed(bound)
  return Effect.fail(
    new AgentNotFound({
      agent: name,
      known: [...bound.team.keys()],
      ...(answeredBy !== undefined || previous === undefined ? {} : { sessionId: previous.sessionId })
    })
  )
}
