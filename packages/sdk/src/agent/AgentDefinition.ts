/**
 * The types of an agent: its options, and the definition that `Agent.make` returns. `Agent` is the module to use.
 *
 * @since 0.1.0
 */
import type { ApprovalPolicy } from "../domain/ApprovalPolicy.ts"
import type { Limits } from "../domain/Limits.ts"
import type { RunContext } from "../domain/RunContext.ts"
import type { RunState } from "../domain/RunState.ts"
import type { ModelSettings } from "../model/ModelRequest.ts"
import type { Shape as Sandbox } from "../sandbox/Sandbox.ts"
import type { DataSchema } from "../tool/DataSchema.ts"
import type { Tool } from "../tool/Tool.ts"
import type { Awaitable } from "../tool/ToolOptions.ts"

/** The argument of a function that computes instructions. `Context` is the context of the run as the agent reads it. */
export interface InstructionsContext<Context = RunContext> {
  readonly state: RunState
  /** The context of the run, which its caller gave, as the agent's schema `context` decodes it. Without a schema, JSON. */
  readonly context: Context
  /** The number of the turn, from 1. */
  readonly turn: number
}

/** The argument of a function that renders a section. */
export interface SectionContext extends InstructionsContext<any> {
  /** The sandbox of the run, if it is open in this process. Rendering opens none. */
  readonly sandbox: Sandbox | undefined
}

/**
 * A part of the instructions that is rendered anew before each model call, such as a plan or the screen of a terminal. It follows the
 * history, after the part of the request that a provider caches, and is neither stored nor summarized. `R` are the services that `render`
 * needs.
 */
export interface Section<R = never> {
  /** The heading under which the model receives the section. Unique among the sections of an agent. */
  readonly name: string
  /**
   * Returns the text, or `undefined` to leave the section out of this turn. Its timeout is the run's `toolTimeoutMs`. If it fails, the
   * section says that it cannot be shown, and the turn goes on. The text is scrubbed; beyond 20,000 characters, its middle is cut.
   */
  readonly render: (context: SectionContext) => Awaitable<string | undefined, R>
}

/** A section with any services. */
export type AnySection = Section<any>

/**
 * The options of an agent. `R` are the services that its instructions, tools, sub-agents and handoffs need; `Output` is the type that its
 * output schema decodes to; `Context` is the context of the run as the agent reads it.
 */
export interface AgentOptions<R, Output, Context = any> {
  /**
   * The system instructions: a text, or a function that is called in each turn, before the model, and has no timeout. If the function fails
   * or returns no string, the run fails with `RunDefect`. Default: none.
   */
  readonly instructions?: string | ((context: InstructionsContext<Context>) => Awaitable<string, R>)
  /**
   * Parts of the instructions that are rendered from the state of the run before each model call; see `Section`. With `instructions` that
   * stay the same, a provider can cache the part of the request before the sections. Default: none.
   */
  readonly sections?: ReadonlyArray<Section<R>>
  /** The tools that the model may call. Default: none. */
  readonly tools?: ReadonlyArray<Tool<R>>
  /** Agents that this agent can call. Their runs are part of its runs, and so are their requests. Default: none. */
  readonly subAgents?: ReadonlyArray<Agent<R, unknown>>
  /**
   * How the agent calls its sub-agents. With `tools` (the default), each sub-agent is a tool of its own name that takes a prompt, and the
   * call waits for the sub-agent's answer. With `delegate`, one tool `delegate` takes the sub-agent's name and can run it in the
   * background; the tools `list_agents`, `wait_for_agent`, `message_agent` and `cancel_agent` then act on the background sub-agents.
   */
  readonly delegation?: "tools" | "delegate"
  /**
   * Agents to which this agent can hand over the conversation, each by a tool `transfer_to_<name>`. The run then continues under the
   * other agent's definition, except for the limits: the run keeps those that it has. A policy that the caller or the capability profile
   * gave to the run binds the other agent in addition to its own. The other agent also answers the next prompt of the session, with its
   * own limits. Pass a function if agents hand over to each other.
   */
  readonly handoffs?: ReadonlyArray<Agent<R, unknown>> | (() => ReadonlyArray<Agent<R, unknown>>)
  /**
   * The output schema, with which the final answer, which must be JSON, is decoded. If an answer does not fit, the model answers again in
   * another turn, as long as the budgets permit. Default: the answer is text.
   */
  readonly output?: DataSchema<Output>
  /**
   * The schema of what the agent's instructions read of the context of the run, for example of its user. A run whose context does not fit is
   * refused with `ContextInvalid`. The schema has to decode at once, without a promise. Default: the context as JSON.
   */
  readonly context?: DataSchema<Context>
  /** Changes to the default limits, field by field. By default, `maxTurns` is 8 and every other budget is unlimited; see `Limits`. */
  readonly limits?: Partial<Limits>
  /** The approval policy. Default: a call that needs approval opens a request, unless a grant covers it. */
  readonly policy?: ApprovalPolicy
  /** What this agent is for, shown to the model of an agent that can call it or hand over to it. */
  readonly description?: string
  /**
   * The name of the model profile to use. For the prompted agent and its handoffs, the `model` of the runtime or of its capability profile
   * takes precedence. Default: that `model`, also for a sub-agent, otherwise the model client's default profile.
   */
  readonly profile?: string
  /** Settings of the agent's model calls, such as `temperature`. Default: those of the model profile, field by field. */
  readonly settings?: ModelSettings
  /** Earlier names of the agent, by which stored and held runs find it after a rename. Default: none. */
  readonly aliases?: ReadonlyArray<string>
}

/**
 * The definition of an agent, made by `Agent.make`. `R` are the services that it, its sub-agents and its handoffs need; `Output` is the
 * type that its output schema decodes to.
 *
 * @category models
 * @since 0.1.0
 */
export interface Agent<R = never, Output = undefined> {
  readonly name: string
  readonly options: AgentOptions<R, Output>
  readonly policy: ApprovalPolicy
  /** Carries the type `R`; has no value. */
  readonly "~services"?: (_: never) => R
}

/** An agent with any services and any output. Use `Agent` where the compiler has to check the services. */
export type Any = Agent<any, unknown>
