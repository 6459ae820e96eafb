/**
 * The definition of an agent: its name, instructions, tools, sub-agents, handoffs, limits and approval policy.
 *
 * A definition is a value without state. It runs only after a `Runtime` has bound it to a model. A stored or held run finds its agent by
 * name or alias, so the definition may change while the run waits.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as ApprovalPolicy_ from "../domain/ApprovalPolicy.ts"
import { kindOf } from "../domain/internal/untyped.ts"
import type { RunContext } from "../domain/RunContext.ts"
import type { AnyTool, Inferred, Tool } from "../tool/Tool.ts"
import { AgentDefinitionError } from "../tool/ToolError.ts"
import type { Agent, AgentOptions, Any, AnySection, Section } from "./AgentDefinition.ts"
import { definedPolicy, definitionProblem } from "./internal/definitionOptions.ts"

export type { Agent, AgentOptions, Any, InstructionsContext, SectionContext } from "./AgentDefinition.ts"

type ToolServices<T> = T extends Tool<infer R> ? R : never
type SectionServices<S> = S extends Section<infer R> ? R : never
type AgentServices<A> = A extends Agent<infer R, infer _Output> ? R : never

/** The services that an agent needs, and those of its sub-agents and handoffs. */
type Needs<
  Tools extends ReadonlyArray<AnyTool>,
  SubAgents extends ReadonlyArray<Any>,
  Handoffs extends ReadonlyArray<Any>,
  Instructions,
  Sections extends ReadonlyArray<AnySection>
> =
  | ToolServices<Tools[number]>
  | AgentServices<SubAgents[number] | Handoffs[number]>
  | Inferred<Instructions>
  | SectionServices<Sections[number]>

/**
 * Defines an agent.
 *
 * **When to use**
 *
 * For every agent that a program prompts, uses as a sub-agent or hands over to. All options are optional: `Agent.make("ops")` is an agent
 * without instructions and tools.
 *
 * **Errors**
 *
 * Throws `AgentDefinitionError` for an empty name, for an unknown option and for a value that an option does not take, also inside
 * `limits`, `settings` and `policy`. Other problems are reported when the agent is bound to a runtime: for example, two tools with one
 * name, or a name other than 1 to 64 letters, digits, `_`, `.` or `-` (for a sub-agent, without `.`).
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = <
  const Tools extends ReadonlyArray<AnyTool> = [],
  const SubAgents extends ReadonlyArray<Any> = [],
  const Handoffs extends ReadonlyArray<Any> = [],
  Instructions = never,
  Output = undefined,
  Context = RunContext,
  const Sections extends ReadonlyArray<AnySection> = []
>(
  name: string,
  options: Omit<
    AgentOptions<never, Output, Context>,
    "instructions" | "tools" | "subAgents" | "handoffs" | "sections"
  > & {
    readonly tools?: Tools
    readonly sections?: Sections
    readonly subAgents?: SubAgents
    readonly handoffs?: Handoffs | (() => Handoffs)
  } & Pick<AgentOptions<Instructions, Output, Context>, "instructions"> = {}
): Agent<Needs<Tools, SubAgents, Handoffs, Instructions, Sections>, Output> => {
  if (typeof name !== "string" || name === "") {
    const given = name === "" ? "an empty one" : kindOf(name)
    throw new AgentDefinitionError({
      agent: "",
      problem: `its name is the first argument, a string, and ${given} was given`
    })
  }
  const problem = definitionProblem(name, options)
  if (problem !== undefined) throw problem
  const policy = definedPolicy(name, options.policy === undefined ? ApprovalPolicy_.ask : options.policy)
  if (Result.isFailure(policy)) throw policy.failure
  type R = Needs<Tools, SubAgents, Handoffs, Instructions, Sections>
  return { name, options: options as AgentOptions<R, Output>, policy: policy.success }
}
