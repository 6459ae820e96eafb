/**
 * The types of an agent: what it is defined with, and what it is.
 *
 * @since 0.1.0
 */
import type { ApprovalPolicy } from "../domain/ApprovalPolicy.ts"
import type { Limits } from "../domain/Limits.ts"
import type { RunState } from "../domain/RunState.ts"
import type { ModelSettings } from "../model/ModelRequest.ts"
import type { DataSchema } from "../tool/DataSchema.ts"
import type { Tool } from "../tool/Tool.ts"
import type { Awaitable } from "../tool/ToolOptions.ts"

/** What computed instructions are told. */
export interface InstructionsContext {
  readonly state: RunState
  /** From 1. */
  readonly turn: number
}

/**
 * The definition of an agent. `R` are the services that its instructions, its tools, its sub-agents and those that it hands over to need, `Output` what
 * its answers are decoded to.
 */
export interface AgentOptions<R, Output> {
  /** What it is told before everything else: text, or a function that is asked before each model call. */
  readonly instructions?: string | ((context: InstructionsContext) => Awaitable<string, R>)
  readonly tools?: ReadonlyArray<Tool<R>>
  /** Agents that it can give work to. Their requests surface in its runs. */
  readonly subAgents?: ReadonlyArray<Agent<R, unknown>>
  /**
   * How it does so. `tools` (the default): each is a tool of its name that takes a prompt, and the call waits for the answer.
   * `delegate`: one tool, `delegate`, names the agent, and can leave it at work in the background; `list_agents`,
   * `wait_for_agent`, `message_agent` and `cancel_agent` are about those that are.
   */
  readonly delegation?: "tools" | "delegate"
  /**
   * Agents that it can give the conversation to, by a tool `transfer_to_<name>`: the run goes on with that agent's
   * instructions, tools, approval policy and output, within its own limits, and so does the session's next prompt, with that agent's
   * limits. A function where agents hand over to each other.
   */
  readonly handoffs?: ReadonlyArray<Agent<R, unknown>> | (() => ReadonlyArray<Agent<R, unknown>>)
  /** What its answers must fit. */
  readonly output?: DataSchema<Output>
  /** Changes to the default limits (`maxTurns` 8). */
  readonly limits?: Partial<Limits>
  /** What happens to calls that need approval. Default: they are asked about. */
  readonly policy?: ApprovalPolicy
  /** What it is good at, for the agent that has it as a sub-agent. */
  readonly description?: string
  /** The model profile to use; left out for the model client's default. */
  readonly profile?: string
  readonly settings?: ModelSettings
  /** Earlier names, so that runs that were held under them still find it. */
  readonly aliases?: ReadonlyArray<string>
}

/**
 * An agent. `R` are the services that it and the agents that it can reach need, `Output` what its answers are decoded to.
 *
 * @category models
 * @since 0.1.0
 */
export interface Agent<R = never, Output = undefined> {
  readonly name: string
  readonly options: AgentOptions<R, Output>
  readonly policy: ApprovalPolicy
  /** The services that it needs; a type only. */
  readonly "~services"?: (_: never) => R
}

/** An agent, whatever it needs and its answers are. `any`, as in `AnyTool`: declare an `Agent` where the services are to be checked. */
export type Any = Agent<any, unknown>
