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
import type { AnyTool, Tool } from "../tool/Tool.ts"
import type { Agent, AgentOptions, Any } from "./AgentDefinition.ts"
import { definedPolicy, definitionProblem } from "./internal/definitionOptions.ts"

export type { Agent, AgentOptions, Any, InstructionsContext } from "./AgentDefinition.ts"

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
  const Tools extends ReadonlyArray<AnyTool> = [],
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
