/**
 * A capability profile: under a name, what an agent may do for the time being, as data.
 *
 * An agent's definition says what it can do; a profile takes from that, for the whole tree of agents: a sub-agent, or an agent that
 * takes the conversation over, can do no more than the profile allows either. Profiles are registered with a runtime, which begins
 * with one and may be switched to another between turns.
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
  /** Patterns of names or aliases, in which `*` stands for any characters. Default: all. */
  names: Schema.optionalKey(patterns),
  /** Patterns of those that are left out of them. Default: none. */
  except: Schema.optionalKey(patterns)
}

/** Which tools: those that every condition lets through. */
export const ToolSelection = Schema.Struct({
  ...byName,
  /** What the tools may do, such as `["readOnly"]`. Default: anything. */
  safety: Schema.optionalKey(Schema.Array(Safety))
})
export type ToolSelection = typeof ToolSelection.Type

/** Which other agents. */
export const AgentSelection = Schema.Struct(byName)
export type AgentSelection = typeof AgentSelection.Type

/** What an agent may do for the time being. What is left out is as the agent's definition says. */
export const CapabilityProfile = Schema.Struct({
  /** By which it is chosen: 1 to 64 letters, digits, `_`, `.` or `-`. */
  name: Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_.-]{1,64}$/)),
  /** What it is for, for whoever chooses. */
  description: Schema.optionalKey(Schema.String),
  /** The tools that the models are shown, at any depth. Default: all. */
  tools: Schema.optionalKey(ToolSelection),
  /** The agents that work, or the conversation, can be given to, at any depth. Default: all. */
  subAgents: Schema.optionalKey(AgentSelection),
  /**
   * Replaces the approval policies of all agents of the tree while it is in force. It binds the runs that start under it also afterwards:
   * an agent that takes one of them over under another profile is bound by both.
   */
  policy: Schema.optionalKey(ApprovalPolicy),
  /** Changes to the limits of the agent that is prompted, for runs that start under it. */
  limits: Schema.optionalKey(LimitChanges),
  /** The model profile that the agent asks for, and its sub-agents that ask for none themselves. */
  model: Schema.optionalKey(Schema.NonEmptyString),
  /** A word for how the agent works under it, such as `plan` or `act`, for extensions and front ends. */
  mode: Schema.optionalKey(Schema.NonEmptyString),
  /** Said to the agent after its own instructions. */
  instructions: Schema.optionalKey(Schema.NonEmptyString)
})
export type CapabilityProfile = typeof CapabilityProfile.Type

/** All that the agent's definition says: what a runtime begins with unless it is told otherwise. */
export const everything: CapabilityProfile = { name: "default" }

/** Whether a tool is among those selected. */
export const allowsTool = (
  selection: ToolSelection | undefined,
  tool: { readonly name: string; readonly aliases: ReadonlyArray<string>; readonly safety: Safety }
): boolean =>
  selection === undefined ||
  (selects(selection, [tool.name, ...tool.aliases]) &&
    (selection.safety === undefined || selection.safety.includes(tool.safety)))

/** Whether an agent is among those selected. */
export const allowsAgent = (
  selection: AgentSelection | undefined,
  agent: { readonly name: string; readonly options: { readonly aliases?: ReadonlyArray<string> } }
): boolean => selection === undefined || selects(selection, [agent.name, ...(agent.options.aliases ?? [])])

/** Aliases count, so that renaming a tool does not let it slip in or out. */
const selects = ({ except, names }: AgentSelection, known: ReadonlyArray<string>): boolean => {
  const isOneOf = (patterns: ReadonlyArray<string>) =>
    patterns.some((pattern) => known.some((name) => matchesGlob(pattern, name)))
  return (names === undefined || isOneOf(names)) && (except === undefined || !isOneOf(except))
}
