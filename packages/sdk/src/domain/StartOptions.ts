/**
 * The policy, limits and context that the caller gave to a run, and the policy of its capability profile.
 *
 * The state keeps them beside the effective values. A handoff, a fork, and a prompt to an ended run read them from here instead of
 * inferring them from the effective values. A prompt that names only a session inherits none. `policiesFor` combines the policies with an
 * agent's own.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { ApprovalPolicy } from "./ApprovalPolicy.ts"
import { canonicalJson } from "./internal/json.ts"
import { LimitChanges } from "./Limits.ts"
import { RunContext } from "./RunContext.ts"

/** The policy, limits and context that a caller gave to a run, and the policy of its capability profile; empty if there are none. */
export const StartOptions = Schema.Struct({
  /** The caller's policy. */
  policy: Schema.optionalKey(ApprovalPolicy),
  /** Name of the prompted agent. The caller's policy replaces this agent's own policy and the profile's. */
  policyFor: Schema.optionalKey(Schema.String),
  /** Names of the agents beside `policyFor`. An agent of one of these names is not taken for `policyFor` through an alias. */
  policyPeers: Schema.optionalKey(Schema.Array(Schema.String)),
  /** The caller's changes to the limits, including those given when the run was resumed. */
  limits: Schema.optionalKey(LimitChanges),
  /** The policy of the capability profile under which the run was started. */
  profilePolicy: Schema.optionalKey(ApprovalPolicy),
  /** The caller's context; see {@link RunContext}. */
  context: Schema.optionalKey(RunContext)
})
export type StartOptions = typeof StartOptions.Type

/** The policies that bind an agent in a run: `policy` and any others. The strictest verdict counts. */
export interface Policies {
  readonly policy: ApprovalPolicy
  readonly otherPolicies?: ReadonlyArray<ApprovalPolicy>
}

/**
 * Combines the start options with an agent's policy.
 *
 * **Details**
 *
 * `agent.policy` is the agent's own policy, or that of the current profile, which replaces it. For the prompted agent (`isPrompted`), the
 * caller's policy replaces this one and that of the profile under which the run was started. Every other agent, and every agent if the
 * caller gave none, is bound by all of them together, so a policy that was given for one agent never loosens the policy of another.
 */
export const policiesFor = (
  { policy, profilePolicy }: StartOptions,
  agent: { readonly policy: ApprovalPolicy; readonly isPrompted: boolean }
): Policies => {
  if (policy !== undefined && agent.isPrompted) return { policy }
  const binding = distinct([policy, profilePolicy, agent.policy].filter((one) => one !== undefined))
  const [first = agent.policy, ...others] = binding
  return others.length === 0 ? { policy: first } : { policy: first, otherPolicies: others }
}

const distinct = (policies: ReadonlyArray<ApprovalPolicy>): ReadonlyArray<ApprovalPolicy> => {
  const texts = policies.map((policy) => canonicalJson(policy))
  return policies.filter((_, index) => texts.indexOf(texts[index]!) === index)
}
