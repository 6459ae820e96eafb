/**
 * The definition of an agent: what it is called, what it is told, what it can do, and how far it may go.
 *
 * A definition is a value without state. It becomes able to run when a `Runtime` binds it to a model; a run that was held is
 * bound again by the agent's name, so that a definition may change while runs are parked.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as ApprovalPolicy_ from "../domain/ApprovalPolicy.ts"
import type { AnyTool, Inferred, Tool } from "../tool/Tool.ts"
import type { Agent, AgentOptions, Any } from "./AgentDefinition.ts"
import { definedPolicy, definitionProblem } from "./internal/definitionOptions.ts"

export type { Agent, AgentOptions, Any, InstructionsContext } from "./AgentDefinition.ts"

type ToolServices<T> = T extends Tool<infer R> ? R : never
type AgentServices<A> = A extends Agent<infer R, infer _Output> ? R : never

/** The services that an agent and the agents that it can reach need. */
type Needs<
  Tools extends ReadonlyArray<AnyTool>,
  SubAgents extends ReadonlyArray<Any>,
  Handoffs extends ReadonlyArray<Any>,
  Instructions
> = ToolServices<Tools[number]> | AgentServices<SubAgents[number] | Handoffs[number]> | Inferred<Instructions>

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
  const Tools extends ReadonlyArray<AnyTool> = [],
  const SubAgents extends ReadonlyArray<Any> = [],
  const Handoffs extends ReadonlyArray<Any> = [],
  Instructions = never,
  Output = undefined
>(
  name: string,
  options: Omit<AgentOptions<never, Output>, "instructions" | "tools" | "subAgents" | "handoffs"> & {
    readonly tools?: Tools
    readonly subAgents?: SubAgents
    readonly handoffs?: Handoffs | (() => Handoffs)
  } & Pick<AgentOptions<Instructions, Output>, "instructions"> = {}
): Agent<Needs<Tools, SubAgents, Handoffs, Instructions>, Output> => {
  const problem = definitionProblem(String(name), options)
  if (problem !== undefined) throw problem
  const policy = definedPolicy(String(name), options.policy ?? ApprovalPolicy_.ask)
  if (Result.isFailure(policy)) throw policy.failure
  type R = Needs<Tools, SubAgents, Handoffs, Instructions>
  return { name, options: options as AgentOptions<R, Output>, policy: policy.success }
}
