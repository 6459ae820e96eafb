/**
 * The tools with which a model works with other agents: what they take, and what the model is told about them. The loop answers
 * their calls itself.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { waitName } from "../../domain/next.ts"
import { type Decoder, decoder } from "../../tool/DataSchema.ts"

/** A tool of the loop's own. */
export interface AgentTool<A = any> {
  readonly name: string
  readonly description: string
  readonly decoder: Decoder<A>
}

const make = <A>(name: string, description: string, parameters: Schema.Codec<A, unknown>): AgentTool<A> => ({
  name,
  description,
  decoder: Result.getOrThrow(decoder(parameters))
})

const prompt = Schema.String.annotate({ description: "What the agent is to do, complete in itself" })
const agentRun = Schema.String.annotate({ description: "The run, as `delegate` has named it" })

/** What a sub-agent that is a tool of its own takes. */
export const delegation = (): Decoder<{ readonly prompt: string }> =>
  Result.getOrThrow(decoder(Schema.Struct({ prompt })))

/** Names of the tools about agents in the background. */
export const names = {
  wait: waitName,
  list: "list_agents",
  message: "message_agent",
  cancel: "cancel_agent"
} as const

/** The arguments of `delegate`. */
export interface Delegate {
  readonly agent: string
  readonly prompt: string
  readonly background?: boolean
}

/** The tool that gives work to one of these agents. */
export const delegate = (
  agents: ReadonlyArray<{ readonly name: string; readonly description: string | undefined }>
): AgentTool<Delegate> =>
  make<Delegate>(
    "delegate",
    [
      "Gives work to another agent. With `background` it goes on by itself: you get its run's name at once, and what it comes to in a message.",
      ...agents.map(
        ({ description, name }) => `- ${name}${description === undefined ? "" : `: ${description}`}`
      )
    ].join("\n"),
    Schema.Struct({
      agent: Schema.Literals(agents.map(({ name }) => name)),
      prompt,
      background: Schema.optionalKey(
        Schema.Boolean.annotate({ description: "Whether to go on without waiting for it. Default: no" })
      )
    })
  )

/** The tools about agents in the background. Made where they are used: most programs have none. */
export const backgroundTools = (): ReadonlyArray<AgentTool> => [
  make(
    names.wait,
    "Waits until agents in the background have ended; what they have come to is then told in messages.",
    Schema.Struct({
      agentRuns: Schema.optionalKey(
        Schema.Array(Schema.String).annotate({
          description: "The runs, as `delegate` has named them. Default: all"
        })
      )
    })
  ),
  make(names.list, "Lists the agents in the background and how far they are.", Schema.Struct({})),
  make(
    names.message,
    "Tells an agent in the background something. It reads it before its next step.",
    Schema.Struct({ agentRun, message: Schema.String })
  ),
  make(
    names.cancel,
    "Stops an agent in the background.",
    Schema.Struct({
      agentRun,
      reason: Schema.optionalKey(Schema.String.annotate({ description: "Why, in a few words" }))
    })
  )
]

/** The tool that gives the conversation to another agent. */
export const handoff = (name: string, description: string | undefined): AgentTool =>
  make(
    `transfer_to_${name}`,
    `Gives the conversation to the agent ${name}, which goes on with it from here.${description === undefined ? "" : ` ${name}: ${description}`}`,
    Schema.Struct({
      reason: Schema.optionalKey(
        Schema.String.annotate({ description: "Why, for the agent that takes over" })
      )
    })
  )
