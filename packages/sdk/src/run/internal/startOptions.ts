import { isAgent } from "../../agent/BoundAgent.ts"
import { type BoundAgent } from "../../agent/Entry.ts"
import type { Runtime } from "../../agent/Runtime.ts"
/**
 * The options that a new run begins with: those that its caller gives, those of the run that it continues, and the profile's.
 */
import type { ApprovalPolicy } from "../../domain/ApprovalPolicy.ts"
import type { LimitChanges } from "../../domain/Limits.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { StartOptions } from "../../domain/StartOptions.ts"

/** What a caller may give to a new run. */
export interface GivenOptions {
  readonly limits?: LimitChanges
  readonly policy?: ApprovalPolicy
}

/** Limits that bound a run beside its caller's, and that no other run inherits: the share that a conductor sets aside. */
export interface Allotted {
  readonly "~allotted"?: LimitChanges
}

/** The options of a run that continues none. */
export const startOptions = (runtime: Runtime, { limits, policy }: GivenOptions): StartOptions => ({
  ...(policy === undefined ? {} : { policy, ...given(runtime) }),
  ...(limits === undefined ? {} : { limits }),
  ...profileOptions(runtime)
})

/** The options of a run that continues another one: what is not given is inherited, as it was given to that one. */
export const inheritedOptions = (
  runtime: Runtime,
  { limits, policy }: GivenOptions,
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
