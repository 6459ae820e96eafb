/**
 * The differences between the agents as a run recorded them and as the program defines them now.
 */
import type { BoundAgent, Entry } from "../../agent/Entry.ts"
import type { ApprovalPolicy } from "../../domain/ApprovalPolicy.ts"
import { canonicalJson } from "../../domain/internal/json.ts"
import type { Safety } from "../../domain/Interruption.ts"
import * as Limits from "../../domain/Limits.ts"
import type { RunState, ToolCall } from "../../domain/RunState.ts"
import { policiesOf } from "../../domain/RunState.ts"
import { policiesFor } from "../../domain/StartOptions.ts"
import { isPrompted } from "./startOptions.ts"

/** One difference between an agent as the run recorded it and as the program defines it now. */
export type Change =
  | { readonly _tag: "agentRenamed"; readonly from: string; readonly to: string }
  | { readonly _tag: "instructionsChanged"; readonly agent: string }
  | { readonly _tag: "toolAdded"; readonly agent: string; readonly tool: string }
  | { readonly _tag: "toolRemoved"; readonly agent: string; readonly tool: string }
  | { readonly _tag: "toolChanged"; readonly agent: string; readonly tool: string }
  /** The safety of the tool of an open call. The call is judged again, and an approval of it is asked for again. */
  | {
      readonly _tag: "safetyChanged"
      readonly agent: string
      readonly tool: string
      readonly from: Safety
      readonly to: Safety
    }
  /** The policies that bind the agent, together. The run keeps those that it has; new runs get the others. */
  | {
      readonly _tag: "policyChanged"
      readonly agent: string
      readonly from: ReadonlyArray<ApprovalPolicy>
      readonly to: ReadonlyArray<ApprovalPolicy>
    }
  /** A limit of the agent, which neither a caller, a decision nor a conductor has set. The run keeps the one that it has. Absent: unlimited. */
  | {
      readonly _tag: "limitChanged"
      readonly agent: string
      readonly limit: keyof Limits.Limits
      readonly from?: number | boolean
      readonly to?: number | boolean
    }

/** The change of the tool's safety since a call was classified. */
export const safetyChange = ({ safety }: ToolCall, entry: Entry): ReadonlyArray<Change> => {
  if (!("definition" in entry) || entry.definition.safety === safety) return []
  const { agent, safety: to, tool } = entry.definition
  return [{ _tag: "safetyChanged", agent, tool, from: safety, to }]
}

/** The changes since the run recorded the agent that has the conversation: its name, instructions, tools, policy and limits. */
export const changesOf = (state: RunState, bound: BoundAgent): ReadonlyArray<Change> => {
  const { agent, entries, identity } = bound
  const changes: Array<Change> = []
  if (state.agent.name !== agent.name) {
    changes.push({ _tag: "agentRenamed", from: state.agent.name, to: agent.name })
  }
  if (state.agent.instructions !== identity.instructions) {
    changes.push({ _tag: "instructionsChanged", agent: agent.name })
  }
  for (const [tool, was] of Object.entries(state.agent.tools)) {
    const entry = entries.get(tool)
    const is = entry === undefined ? undefined : identity.tools[entry.name]
    if (is === undefined) changes.push({ _tag: "toolRemoved", agent: agent.name, tool })
    else if (is !== was) changes.push({ _tag: "toolChanged", agent: agent.name, tool })
  }
  for (const tool of Object.keys(identity.tools)) {
    const entry = entries.get(tool)
    const known =
      entry !== undefined &&
      [...entries].some(
        ([name, other]) => other.name === entry.name && Object.hasOwn(state.agent.tools, name)
      )
    if (!known) changes.push({ _tag: "toolAdded", agent: agent.name, tool })
  }
  return [...changes, ...policyChange(state, bound), ...limitChanges(state, bound)]
}

/** A run of an earlier version does not say what its caller gave, so its policies and limits cannot be compared. */
const policyChange = (state: RunState, bound: BoundAgent): ReadonlyArray<Change> => {
  const { startedWith } = state
  if (startedWith === undefined) return []
  const { agent } = bound
  const standing = { isPrompted: isPrompted(startedWith, bound) }
  const under = (policy: ApprovalPolicy) => listOf(policiesFor(startedWith, { ...standing, policy }))
  const from = policiesOf(state)
  const to = under(agent.policy)
  // The policy of the profile under which the run started replaced that of the agent.
  const known = startedWith.profilePolicy === undefined ? [to] : [to, under(startedWith.profilePolicy)]
  return known.some((policies) => canonicalJson(policies) === canonicalJson(from))
    ? []
    : [{ _tag: "policyChanged", agent: agent.name, from, to }]
}

const listOf = ({ otherPolicies = [], policy }: ReturnType<typeof policiesFor>) => [policy, ...otherPolicies]

/** The limits of another agent that handed over, and budgets that were set for this run alone, are not compared. */
const limitChanges = (state: RunState, { agent, limits }: BoundAgent): ReadonlyArray<Change> => {
  const { startedWith, under = state.agent.name } = state
  if (startedWith === undefined || under !== state.agent.name) return []
  const was: Limits.LimitChanges = { ...Limits.defaults, ...state.limits }
  const names = new Set([...Object.keys(was), ...Object.keys(limits)]) as Set<keyof Limits.Limits>
  return Array.from(names).flatMap((limit) => {
    const [from, to] = [was[limit], limits[limit]]
    if (from === to || startedWith.limits?.[limit] !== undefined || isOwn(state, limit)) return []
    return [
      {
        _tag: "limitChanged",
        agent: agent.name,
        limit,
        ...(from === undefined ? {} : { from }),
        ...(to === undefined ? {} : { to })
      }
    ]
  })
}

/** Whether a conductor, an agent above or a decision may have set a budget of this run. */
const isOwn = ({ agentPath, conductor, requests }: RunState, limit: keyof Limits.Limits): boolean => {
  if (!Limits.Budget.literals.some((budget) => Limits.limitOf[budget] === limit)) return false
  return (
    agentPath.length > 1 ||
    conductor !== undefined ||
    requests.some(
      ({ decision, request }) =>
        decision?._tag === "topUp" && request._tag === "limit" && Limits.limitOf[request.budget] === limit
    )
  )
}
