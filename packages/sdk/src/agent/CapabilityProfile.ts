/**
 * A capability profile: a named selection from what an agent may do, as data, with settings that replace or extend the agent's own.
 *
 * An agent's definition lists its tools and sub-agents; a profile selects from them, and can never add one. The selection applies to the
 * whole tree of agents, so that neither a sub-agent nor an agent that takes the conversation over has a tool that the profile excludes.
 * The profile's policy, limits, model and instructions replace or extend those of the agents, and may be looser. A runtime has a list of
 * profiles, starts with one, and can change to another between turns (`reconfigureRuntime`).
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { ApprovalPolicy } from "../domain/ApprovalPolicy.ts"
import { matchesGlob } from "../domain/internal/glob.ts"
import { Safety } from "../domain/Interruption.ts"
import { LimitChanges } from "../domain/Limits.ts"

const patterns = Schema.Array(Schema.NonEmptyString)

const byName = {
  /** Patterns of the names or aliases to select; `*` matches any characters. Default: all. */
  names: Schema.optionalKey(patterns),
  /** Patterns of the names or aliases to exclude from these. Default: none. */
  except: Schema.optionalKey(patterns)
}

/** Selects tools. A tool must meet every condition. */
export const ToolSelection = Schema.Struct({
  ...byName,
  /** The safety that a selected tool may have, such as `["readOnly"]`. Default: any. */
  safety: Schema.optionalKey(Schema.Array(Safety))
})
export type ToolSelection = typeof ToolSelection.Type

/** Selects sub-agents and handoffs. */
export const AgentSelection = Schema.Struct(byName)
export type AgentSelection = typeof AgentSelection.Type

/**
 * A named configuration of an agent. A field that is left out keeps what the agent's definition says; `mode` is then the profile's name.
 */
export const CapabilityProfile = Schema.Struct({
  /** The name that selects the profile: 1 to 64 letters, digits, `_`, `.` or `-`. */
  name: Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_.-]{1,64}$/)),
  /** What the profile is for, for the person or program that selects one. */
  description: Schema.optionalKey(Schema.String),
  /** The tools that the agents of the tree have, at any depth, including the tools of extensions. Default: all. */
  tools: Schema.optionalKey(ToolSelection),
  /** The agents that can be called as sub-agents or handed over to, at any depth. Default: all. */
  subAgents: Schema.optionalKey(AgentSelection),
  /**
   * Replaces the approval policies of all agents of the tree. For the prompted agent, a policy that the caller gives to a run replaces the
   * profile's. A run keeps the policy of the profile under which it started: an agent that takes it over under another profile is bound by
   * both.
   */
  policy: Schema.optionalKey(ApprovalPolicy),
  /**
   * Changes to the limits of the prompted agent and its handoffs, field by field, for runs that start under the profile. The limits that
   * a caller gives to a run take precedence.
   */
  limits: Schema.optionalKey(LimitChanges),
  /**
   * The model profile of the prompted agent and its handoffs, and of those sub-agents that select none themselves. The runtime's option
   * `model` takes precedence.
   */
  model: Schema.optionalKey(Schema.NonEmptyString),
  /** The mode under this profile, such as `plan` or `act`, for extensions and front ends. Default: the profile's name. */
  mode: Schema.optionalKey(Schema.NonEmptyString),
  /** Text that is appended to the instructions of the prompted agent and its handoffs. */
  instructions: Schema.optionalKey(Schema.NonEmptyString)
})
export type CapabilityProfile = typeof CapabilityProfile.Type

/**
 * The profile `default`, which changes nothing. A runtime starts with it unless its options name another profile, or define one named
 * `default`.
 */
export const everything: CapabilityProfile = { name: "default" }

/** Whether a selection includes a tool. Without a selection, every tool is included. */
export const allowsTool = (
  selection: ToolSelection | undefined,
  tool: { readonly name: string; readonly aliases: ReadonlyArray<string>; readonly safety: Safety }
): boolean =>
  selection === undefined ||
  (selects(selection, [tool.name, ...tool.aliases]) &&
    (selection.safety === undefined || selection.safety.includes(tool.safety)))

/** Whether a selection includes an agent. Without a selection, every agent is included. */
export const allowsAgent = (
  selection: AgentSelection | undefined,
  agent: { readonly name: string; readonly options: { readonly aliases?: ReadonlyArray<string> } }
): boolean => selection === undefined || selects(selection, [agent.name, ...(agent.options.aliases ?? [])])

/** Patterns match aliases too, so that a rename does not change what a profile selects. */
const selects = ({ except, names }: AgentSelection, known: ReadonlyArray<string>): boolean => {
  const isOneOf = (patterns: ReadonlyArray<string>) =>
    patterns.some((pattern) => known.some((name) => matchesGlob(pattern, name)))
  return (names === undefined || isOneOf(names)) && (except === undefined || !isOneOf(except))
}
