/**
 * An agent whose definition was checked and whose tools can be looked up by name.
 *
 * Everything that can be wrong with a definition is found here, before anything runs: two tools with one name, a schema that
 * cannot be shown to a model, a name that providers refuse.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Hash from "effect/Hash"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Safety } from "../domain/Interruption.ts"
import { canonicalJson } from "../domain/internal/json.ts"
import type { Limits } from "../domain/Limits.ts"
import * as Limits_ from "../domain/Limits.ts"
import type { AgentIdentity } from "../domain/RunState.ts"
import type { ToolDefinition } from "../model/ModelRequest.ts"
import type { Decoder } from "../tool/DataSchema.ts"
import { decoder } from "../tool/DataSchema.ts"
import type { Tool } from "../tool/Tool.ts"
import { AgentDefinitionError, ToolDefinitionError, ToolNameTaken } from "../tool/ToolError.ts"
import type * as Agent from "./Agent.ts"

/** What a tool's name leads to. */
export type Entry =
  | {
      readonly target: "tool" | "question"
      readonly name: string
      readonly tool: Tool<any>
      readonly decoder: Decoder<unknown>
    }
  | {
      readonly target: "agent"
      readonly name: string
      readonly bound: BoundAgent
      readonly decoder: Decoder<{ readonly prompt: string }>
    }

/** An agent that can run. */
export interface BoundAgent {
  readonly agent: Agent.Any
  /** Tools and sub-agents by name and by alias. */
  readonly entries: ReadonlyMap<string, Entry>
  /** What the model is shown, in the order of the definition. */
  readonly definitions: ReadonlyArray<ToolDefinition>
  readonly identity: AgentIdentity
  readonly limits: Limits
  readonly output: Decoder<unknown> | undefined
}

/** What can be wrong with a definition. */
export type DefinitionError = ToolNameTaken | ToolDefinitionError | AgentDefinitionError

const Delegation = Schema.Struct({
  prompt: Schema.String.annotate({ description: "What the agent is to do, complete in itself" })
})

/** What OpenAI's and Anthropic's APIs both take as a tool's name. */
const toolName = /^[a-zA-Z0-9_-]{1,64}$/

const agentName = /^[A-Za-z0-9_.-]{1,64}$/

/** A short text that changes when the value does; for telling people what changed, not for security. */
export const fingerprint = (text: string): string => (Hash.string(text) >>> 0).toString(36)

/**
 * Checks a definition.
 *
 * **Errors**
 *
 * - `ToolNameTaken`, `ToolDefinitionError`, `AgentDefinitionError` — mend the definition.
 */
export const make = (agent: Agent.Any): Effect.Effect<BoundAgent, DefinitionError> =>
  Effect.gen(function* () {
    const invalid = (problem: string) => new AgentDefinitionError({ agent: agent.name, problem })
    if (!agentName.test(agent.name)) {
      return yield* invalid("its name must be 1 to 64 letters, digits, '_', '.' or '-'")
    }
    const limits = { ...Limits_.defaults, ...agent.options.limits }
    const entries = new Map<string, Entry>()
    const add = (name: string, entry: Entry) => {
      if (entries.has(name)) return Effect.fail(new ToolNameTaken({ agent: agent.name, tool: name }))
      entries.set(name, entry)
      return Effect.void
    }
    const definitions: Array<ToolDefinition> = []
    for (const tool of agent.options.tools ?? []) {
      const decoder = yield* checkTool(agent.name, tool)
      for (const name of [tool.name, ...tool.aliases]) {
        yield* add(name, {
          target: tool.target === "question" ? "question" : "tool",
          name: tool.name,
          tool,
          decoder
        })
      }
      definitions.push({ name: tool.name, description: tool.description, parameters: decoder.jsonSchema })
    }
    for (const subAgent of agent.options.subAgents ?? []) {
      const bound = yield* make(subAgent)
      if (!toolName.test(subAgent.name)) {
        return yield* invalid(`the sub-agent "${subAgent.name}" must have a name that can be a tool's`)
      }
      for (const name of [subAgent.name, ...(subAgent.options.aliases ?? [])]) {
        yield* add(name, { target: "agent", name: subAgent.name, bound, decoder: delegation })
      }
      definitions.push({
        name: subAgent.name,
        description: subAgent.options.description ?? `Asks the agent ${subAgent.name}.`,
        parameters: delegation.jsonSchema
      })
    }
    const output = agent.options.output === undefined ? undefined : decoder(agent.options.output)
    if (output !== undefined && Result.isFailure(output)) {
      return yield* invalid(`its output schema cannot be shown to a model: ${output.failure}`)
    }
    const { instructions = "" } = agent.options
    return {
      agent,
      entries,
      definitions,
      identity: {
        name: agent.name,
        instructions: typeof instructions === "string" ? fingerprint(instructions) : "computed",
        tools: Object.fromEntries(
          definitions.map(({ name, parameters }) => [name, fingerprint(canonicalJson(parameters))])
        )
      },
      limits,
      output: output?.success
    }
  })

const delegation = Result.getOrThrow(decoder(Delegation))

const checkTool = (agent: string, tool: Tool<any>): Effect.Effect<Decoder<unknown>, ToolDefinitionError> => {
  const invalid = (problem: string) =>
    Effect.fail(new ToolDefinitionError({ agent, tool: tool.name, problem }))
  if (!toolName.test(tool.name)) return invalid("its name must be 1 to 64 letters, digits, '_' or '-'")
  if (!Safety.literals.includes(tool.safety)) {
    return invalid(`its safety must be one of ${Safety.literals.join(", ")}`)
  }
  if (typeof tool.options.handler !== "function") return invalid("it has no handler")
  const { parameters } = tool
  if (Result.isFailure(parameters)) {
    return invalid(`its parameters cannot be shown to a model: ${parameters.failure}`)
  }
  const { jsonSchema } = parameters.success
  if (jsonSchema["type"] !== "object") {
    return invalid("its parameters must be a struct, since models pass arguments by name")
  }
  if (tool.options.retry !== undefined && tool.safety !== "readOnly" && !tool.idempotent) {
    return invalid("it has a retry policy, which is only for tools that are readOnly or idempotent")
  }
  const expiresIn = tool.options.approval?.expiresIn
  if (expiresIn !== undefined && !(Duration.toMillis(Duration.fromInputUnsafe(expiresIn)) > 0)) {
    return invalid("its approval expires before anybody can give it: expiresIn must be longer than nothing")
  }
  return Effect.succeed(parameters.success)
}

/** The agent with this name or alias among an agent and its sub-agents. */
export const answersTo = (agent: Agent.Any, name: string): boolean =>
  agent.name === name || (agent.options.aliases ?? []).includes(name)
