/**
 * Folds a change of the approval mode of a run at work.
 */
import type { ApprovalPolicy } from "../ApprovalPolicy.ts"
import type { RunEvent } from "../RunEvent.ts"
import type { RunState } from "../RunState.ts"
import { defined } from "./defined.ts"

type PolicyChanged = Extract<RunEvent, { readonly _tag: "policy.changed" }>

/**
 * The state with the new mode in each policy that binds the run. The mode is kept among the start options, too, so that it binds an agent
 * to which the run hands over later: without it, a handoff would lift the mode `none`.
 */
export const policyChanged = (state: RunState, { mode, until }: PolicyChanged): RunState => {
  const change = ({ rules }: ApprovalPolicy): ApprovalPolicy => ({ mode, ...defined({ until, rules }) })
  const { otherPolicies, startedWith = {} } = state
  const { policy, policyFor = "", profilePolicy } = startedWith
  return {
    ...state,
    policy: change(state.policy),
    ...(otherPolicies === undefined ? {} : { otherPolicies: otherPolicies.map(change) }),
    startedWith: {
      ...startedWith,
      policy: change(policy ?? { mode }),
      policyFor,
      ...(profilePolicy === undefined ? {} : { profilePolicy: change(profilePolicy) })
    }
  }
}
