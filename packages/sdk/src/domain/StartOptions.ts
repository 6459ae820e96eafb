/**
 * The options that a run was started with, as they were given: by its caller, and by the capability profile in force.
 *
 * They are kept apart from what follows from them, so that a handoff, a fork or the next run of a continued one reads what was
 * said instead of inferring it from the values in force. `policiesFor` is the rule by which they and an agent's own policy combine.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { ApprovalPolicy } from "./ApprovalPolicy.ts"
import { canonicalJson } from "./internal/json.ts"
import { LimitChanges } from "./Limits.ts"

/** The options that a run was started with. Empty: nothing was given. */
export const StartOptions = Schema.Struct({
  /** The caller's policy. */
  policy: Schema.optionalKey(ApprovalPolicy),
  /** The agent whose own policy the caller's replaces: the one that was prompted. */
  policyFor: Schema.optionalKey(Schema.String),
  /** Names of the agents that were there beside it: an alias that leads to one of them leads to another agent. */
  policyPeers: Schema.optionalKey(Schema.Array(Schema.String)),
  /** The caller's changes to the limits; what a resumed run was given since is among them. */
  limits: Schema.optionalKey(LimitChanges),
  /** The policy of the capability profile under which the run was started. */
  profilePolicy: Schema.optionalKey(ApprovalPolicy)
})
export type StartOptions = typeof StartOptions.Type

/** The policies that bind an agent in a run: `policy`, and any others. The strictest verdict counts. */
export interface Policies {
  readonly policy: ApprovalPolicy
  readonly otherPolicies?: ReadonlyArray<ApprovalPolicy>
}

/**
 * The policies that bind an agent in a run.
 *
 * **Details**
 *
 * The caller's policy replaces that of the agent that was prompted (`isPrompted`). Any other agent is bound by its own policy, the
 * caller's and the profile's together: a policy given to one agent never loosens another one's.
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
