/**
 * The definition of an agent: what it is called, what it is told, what it can do, and how far it may go.
 *
 * A definition is a value without state. It becomes able to run when a `Runtime` binds it to a model; a run that was held is
 * bound again by the agent's name, so that a definition may change while runs are parked.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import type { ApprovalPolicy } from "../domain/ApprovalPolicy.ts"
import * as ApprovalPolicy_ from "../domain/ApprovalPolicy.ts"
import type { Limits } from "../domain/Limits.ts"
import type { RunState } from "../domain/RunState.ts"
import type { ModelSettings } from "../model/ModelRequest.ts"
import type { DataSchema } from "../tool/DataSchema.ts"
import { definedPolicy, definitionProblem } from "./internal/definitionOptions.ts"
import type { Awaitable, Tool } from "../tool/Tool.ts"

/** What computed instructions are told. */
export interface InstructionsContext {
  readonly state: RunState
  /** From 1. */
  readonly turn: number
}

/** The definition of an agent. `R` are the services that its tools need, `Output` what its answers are decoded to. */
export interface AgentOptions<R, Output> {
  /** What it is told before everything else: text, or a function that is asked before each model call. */
  readonly instructions?: string | ((context: InstructionsContext) => Awaitable<string>)
  readonly tools?: ReadonlyArray<Tool<R>>
  /** Agents that it can give work to. Their requests surface in its runs. */
  readonly subAgents?: ReadonlyArray<Agent<R, any>>
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
  readonly handoffs?: ReadonlyArray<Agent<R, any>> | (() => ReadonlyArray<Agent<R, any>>)
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
 * An agent. `R` are the services that its tools and sub-agents need, `Output` what its answers are decoded to.
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

/** An agent, whatever its tools need and its answers are. */
export type Any = Agent<any, any>

type ToolServices<T> = T extends Tool<infer R> ? R : never
type AgentServices<A> = A extends Agent<infer R, infer _Output> ? R : never

/**
 * Defines an agent.
 *
 * **Errors**
 *
 * Throws `AgentDefinitionError` for a key that there is not, for a value of another kind, and for a policy that is none; everything else
 * that can be wrong with an agent is found when it is bound to a runtime.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = <
  const Tools extends ReadonlyArray<Tool<any>> = [],
  const SubAgents extends ReadonlyArray<Any> = [],
  Output = undefined
>(
  name: string,
  options: Omit<AgentOptions<any, Output>, "tools" | "subAgents"> & {
    readonly tools?: Tools
    readonly subAgents?: SubAgents
  } = {}
): Agent<ToolServices<Tools[number]> | AgentServices<SubAgents[number]>, Output> => {
  const problem = definitionProblem(String(name), options)
  if (problem !== undefined) throw problem
  const policy = definedPolicy(String(name), options.policy ?? ApprovalPolicy_.ask)
  if (Result.isFailure(policy)) throw policy.failure
  return { name, options, policy: policy.success }
}
