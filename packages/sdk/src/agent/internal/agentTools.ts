/**
 * The tools by which a model calls other agents: their names, parameters and descriptions. The loop handles their calls itself. They are
 * registered by extensions, like the tools that a program adds.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { waitName } from "../../domain/next.ts"
import { type Decoder, decoder } from "../../tool/DataSchema.ts"
import type { Any } from "../AgentDefinition.ts"
import type { AgentToolEntry, Delegate, SubAgent } from "../Entry.ts"

/** Each member of a union without its definition, which is added when the tool is registered. */
type Unregistered<Entry> = Entry extends unknown ? Omit<Entry, "definition"> : never

/** A tool that the loop handles: its entry in the registry, and its description for the model. */
interface AgentTool {
  readonly entry: Unregistered<AgentToolEntry>
  readonly aliases?: ReadonlyArray<string>
  readonly description: string
}

/** The argument of these extensions: the agent that is being bound, its sub-agents and its handoffs. */
interface AgentContext {
  readonly agent: Any
  /** By name and by alias. */
  readonly subAgents: ReadonlyMap<string, SubAgent>
  readonly handoffs: ReadonlyArray<Any>
}

/**
 * Adds tools to every agent of a tree, as a `RuntimeExtension` does to the prompted agent and its handoffs. Unlike a program's tools, these
 * may start a run inside the run, or be answered by the loop from the run's state.
 */
type AgentExtension = (context: AgentContext) => ReadonlyArray<AgentTool>

/** Decoders are made when an agent is bound, not at import: most programs have none. */
const decode = <A>(parameters: Schema.Codec<A, unknown>): Decoder<A> => Result.getOrThrow(decoder(parameters))

const prompt = Schema.String.annotate({ description: "What the agent is to do, complete in itself" })
const agentRun = Schema.String.annotate({ description: "The run, as `delegate` has named it" })

/** The tools for background sub-agents by name, in the order in which the model receives them. */
const backgroundTools = {
  [waitName]: {
    description: "Waits until agents in the background have ended; their results then arrive as messages.",
    parameters: Schema.Struct({
      agentRuns: Schema.optionalKey(
        Schema.Array(Schema.String).annotate({
          description: "The runs, as `delegate` has named them. Default: all"
        })
      )
    })
  },
  list_agents: {
    description: "Lists the agents in the background and how far they are.",
    parameters: Schema.Struct({})
  },
  message_agent: {
    description: "Tells an agent in the background something. It reads it before its next step.",
    parameters: Schema.Struct({ agentRun, message: Schema.String })
  },
  cancel_agent: {
    description: "Stops an agent in the background.",
    parameters: Schema.Struct({
      agentRun,
      reason: Schema.optionalKey(Schema.String.annotate({ description: "Why, in a few words" }))
    })
  }
} as const

/** The arguments of each tool for background sub-agents. */
export type BackgroundArguments = {
  readonly [Name in keyof typeof backgroundTools]: (typeof backgroundTools)[Name]["parameters"]["Type"]
}

const isDelegating = ({ agent, subAgents }: AgentContext): boolean =>
  agent.options.delegation === "delegate" && subAgents.size > 0

/** Each sub-agent once, without its aliases. */
const distinct = (context: AgentContext): ReadonlyArray<SubAgent> => [...new Set(context.subAgents.values())]

/** A tool for each sub-agent. */
const asTools: AgentExtension = (context) =>
  context.agent.options.delegation === "delegate"
    ? []
    : distinct(context).map(({ name, bound }): AgentTool => {
        const { aliases = [], description = `Asks the agent ${name}.` } = bound.agent.options
        const entry = { target: "agent", name, bound, decoder: decode(Schema.Struct({ prompt })) } as const
        return { entry, aliases, description }
      })

/** One tool that calls any sub-agent, attached or in the background. */
const delegate: AgentExtension = (context) => {
  if (!isDelegating(context)) return []
  const agents = distinct(context)
  const decoder: Decoder<Delegate> = decode<Delegate>(
    Schema.Struct({
      agent: Schema.Literals(agents.map(({ name }) => name)),
      prompt,
      background: Schema.optionalKey(
        Schema.Boolean.annotate({ description: "Whether to go on without waiting for it. Default: no" })
      )
    })
  )
  const lines = agents.map(({ bound, name }) => {
    const { description } = bound.agent.options
    return `- ${name}${description === undefined ? "" : `: ${description}`}`
  })
  return [
    {
      entry: { target: "delegate", name: "delegate", agents: context.subAgents, decoder },
      description: [
        "Gives work to another agent. With `background` it works on its own: you get its run's name at once, and its result as a message.",
        ...lines
      ].join("\n")
    }
  ]
}

/** The tools that wait for, list, message and cancel background sub-agents. */
const background: AgentExtension = (context) =>
  isDelegating(context)
    ? Object.entries(backgroundTools).map(([name, { description, parameters }]): AgentTool => ({
        entry: { target: "agents", name, decoder: decode<unknown>(parameters) },
        description
      }))
    : []

/** The tools that hand the conversation over to other agents. */
const handoffs: AgentExtension = ({ handoffs }) =>
  handoffs.map(({ name: to, options: { description } }): AgentTool => {
    const decoder = decode(
      Schema.Struct({
        reason: Schema.optionalKey(
          Schema.String.annotate({ description: "Why, for the agent that takes over" })
        )
      })
    )
    return {
      entry: { target: "handoff", name: `transfer_to_${to}`, to, decoder: decoder as Decoder<unknown> },
      description: `Gives the conversation to the agent ${to}, which goes on with it from here.${description === undefined ? "" : ` ${to}: ${description}`}`
    }
  })

/** The names of the tools that an agent may get without its program naming them. */
export const agentToolNames: ReadonlyArray<string> = ["ask_user", "delegate", ...Object.keys(backgroundTools)]

/** The extensions of every agent, in the order in which the model receives their tools. */
export const extensions: ReadonlyArray<AgentExtension> = [asTools, delegate, background, handoffs]
