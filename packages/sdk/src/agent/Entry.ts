/**
 * What the names that a model knows lead to, in an agent that was checked.
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

/** What a tool's name leads to. */
export type Entry =
  | {
      readonly target: "tool" | "question"
      readonly name: string
      readonly tool: AnyTool
      readonly decoder: Decoder<unknown>
      /** What approvals and grants are bound to. */
      readonly definition: Definition
    }
  | {
      readonly target: "agent"
      readonly name: string
      readonly bound: BoundAgent
      readonly decoder: Decoder<{ readonly prompt: string }>
    }
  | {
      readonly target: "delegate"
      readonly name: string
      /** By name and by alias. */
      readonly agents: ReadonlyMap<string, SubAgent>
      readonly decoder: Decoder<Delegate>
    }
  | { readonly target: "agents"; readonly name: string; readonly decoder: Decoder<unknown> }
  | {
      readonly target: "handoff"
      readonly name: string
      /** Name of the agent that takes over. */
      readonly to: string
      readonly decoder: Decoder<unknown>
    }

/** An agent that another one gives work to. */
export interface SubAgent {
  readonly name: string
  readonly bound: BoundAgent
}

/** An agent that can run. */
export interface BoundAgent {
  readonly agent: Agent.Any
  /** Tools and sub-agents by name and by alias. */
  readonly entries: ReadonlyMap<string, Entry>
  /** What the model is shown, in the order of the definition. */
  readonly definitions: ReadonlyArray<ToolDefinition>
  readonly identity: AgentIdentity
  /** The path of a run of its own: one for all of them. */
  readonly path: ReadonlyArray<string>
  readonly limits: Limits
  readonly output: Decoder<unknown> | undefined
  /** The agents that can take a conversation over that this one has begun, by name and by alias, and itself. */
  readonly team: ReadonlyMap<string, BoundAgent>
}

/** The arguments of `delegate`. */
export interface Delegate {
  readonly agent: string
  readonly prompt: string
  readonly background?: boolean
}
