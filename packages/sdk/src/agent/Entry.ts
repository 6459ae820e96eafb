/**
 * The types of a bound agent: the agent, its tools by name, and its sub-agents.
 *
 * @since 0.1.0
 */
import type { Limits } from "../domain/Limits.ts"
import type { AgentIdentity } from "../domain/RunState.ts"
import type { Definition } from "../domain/ToolIdentity.ts"
import type { ToolDefinition } from "../model/ModelRequest.ts"
import type { Decoder } from "../tool/DataSchema.ts"
import type { AnyTool } from "../tool/Tool.ts"
import type * as Agent from "./AgentDefinition.ts"

/** The tool of a name: a tool of the program, or one of the agent tools, which the loop handles itself. */
export type Entry = ToolEntry | AgentToolEntry

interface Registered<A> {
  readonly name: string
  readonly decoder: Decoder<A>
  /** The tool's identity, to which approvals and grants are bound. */
  readonly definition: Definition
}

/** A tool of the program, or `ask_user`. */
export interface ToolEntry extends Registered<unknown> {
  readonly target: "tool" | "question"
  readonly tool: AnyTool
}

/** A tool by which a model calls other agents: a sub-agent, `delegate`, a tool for background sub-agents, or a handoff. */
export type AgentToolEntry =
  | (Registered<{ readonly prompt: string }> & { readonly target: "agent"; readonly bound: BoundAgent })
  | (Registered<Delegate> & {
      readonly target: "delegate"
      /** By name and by alias. */
      readonly agents: ReadonlyMap<string, SubAgent>
    })
  | (Registered<unknown> & { readonly target: "agents" })
  | (Registered<unknown> & {
      readonly target: "handoff"
      /** The name of the agent that takes over. */
      readonly to: string
    })

/** An agent that another agent can call. */
export interface SubAgent {
  readonly name: string
  readonly bound: BoundAgent
}

/** An agent whose definition was checked, with its tools and those of the agents that it can call or hand over to. */
export interface BoundAgent {
  readonly agent: Agent.Any
  /** The tools, including those by which the model calls other agents, by name and by alias. */
  readonly entries: ReadonlyMap<string, Entry>
  /** The tool definitions that the model receives, in the order of the agent's definition. */
  readonly definitions: ReadonlyArray<ToolDefinition>
  readonly identity: AgentIdentity
  /** The agent path of a run in which this agent is the root; one array for all of them. */
  readonly path: ReadonlyArray<string>
  readonly limits: Limits
  readonly output: Decoder<unknown> | undefined
  /** This agent and the agents that it hands over to, directly or through others, by name and by alias. */
  readonly team: ReadonlyMap<string, BoundAgent>
}

/** The arguments of `delegate`. */
export interface Delegate {
  readonly agent: string
  readonly prompt: string
  readonly background?: boolean
}
