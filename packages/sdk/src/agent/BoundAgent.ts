/**
 * An agent whose definition was checked and whose tools can be looked up by name.
 *
 * Everything that can be wrong with a definition is found here, before anything runs: two tools with one name, a schema that
 * cannot be shown to a model, a name that providers refuse.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Hash from "effect/Hash"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { canonicalJson } from "../domain/internal/json.ts"
import * as Limits_ from "../domain/Limits.ts"
import { isOther, isSame } from "../domain/ToolIdentity.ts"
import type { ToolDefinition } from "../model/ModelRequest.ts"
import { type Decoder, decoder } from "../tool/DataSchema.ts"
import type { AnyTool } from "../tool/Tool.ts"
import { AgentDefinitionError, type ToolDefinitionError, ToolNameTaken } from "../tool/ToolError.ts"
import type * as Agent from "./Agent.ts"
import type { BoundAgent, Entry, SubAgent } from "./Entry.ts"
import { extensions } from "./internal/agentTools.ts"
import { checkTool, toolName } from "./internal/checkTool.ts"
import { definedPolicy, definitionProblem } from "./internal/definitionOptions.ts"

export type { BoundAgent, Entry, SubAgent } from "./Entry.ts"

/** What can be wrong with a definition. */
export type DefinitionError = ToolNameTaken | ToolDefinitionError | AgentDefinitionError

const agentName = /^[A-Za-z0-9_.-]{1,64}$/

const decodeLimits = Schema.decodeUnknownResult(Limits_.Limits)

/** A short text that changes when the value does; for telling people what changed, not for security. */
export const fingerprint = (text: string): string => (Hash.string(text) >>> 0).toString(36)

/** Identifies a tool beside its name: by its argument schema, and by its identity where it has one. */
const toolFingerprint = (parameters: Schema.JsonObject, identity: string | undefined): string =>
  `${fingerprint(canonicalJson(parameters))}${identity === undefined ? "" : ` ${identity}`}`

/**
 * Checks a definition.
 *
 * **Errors**
 *
 * - `ToolNameTaken`, `ToolDefinitionError`, `AgentDefinitionError` — mend the definition.
 */
export const make = (
  agent: Agent.Any,
  /** Names of the program's other agents. */
  peers: ReadonlyArray<string> = []
): Effect.Effect<BoundAgent, DefinitionError> => bindUnder(agent, [], peers)

/** The names that an agent's own must not be taken for: see `AgentIdentity`. */
interface PeerNames {
  readonly peers: ReadonlyArray<string>
  readonly starterPeers?: ReadonlyArray<string>
}

const bindUnder = (
  agent: Agent.Any,
  /** The agents that it works for, the innermost last. */
  supervisors: ReadonlyArray<Agent.Any>,
  otherPeers: ReadonlyArray<string>,
  starterPeers: ReadonlyArray<string> = []
): Effect.Effect<BoundAgent, DefinitionError> =>
  Effect.suspend(() => {
    const peers = [...new Set([...teamNames(agent), ...otherPeers])]
    return bind(agent, supervisors, new Map(), {
      peers,
      ...(starterPeers.length > 0 ? { starterPeers } : {})
    })
  })

/** The names of an agent and of those that the conversation can go to from it. */
export const teamNames = (agent: Agent.Any, found = new Set<string>()): ReadonlySet<string> => {
  if (found.has(agent.name)) return found
  found.add(agent.name)
  for (const successor of successorsOf(agent)) teamNames(successor, found)
  return found
}

const successorsOf = ({ options: { handoffs = [] } }: Agent.Any): ReadonlyArray<Agent.Any> =>
  typeof handoffs === "function" ? handoffs() : handoffs

/** Binds an agent and those that it hands over to, each once. */
const bind = (
  agent: Agent.Any,
  supervisors: ReadonlyArray<Agent.Any>,
  team: Map<string, BoundAgent>,
  peerNames: PeerNames
): Effect.Effect<BoundAgent, DefinitionError> =>
  Effect.gen(function* () {
    const invalid = (problem: string) => new AgentDefinitionError({ agent: agent.name, problem })
    if (supervisors.includes(agent)) {
      // By way of those that hand over to it.
      const handing = new Set([...team.values()].map((other) => other.agent))
      const line = [...supervisors.slice(supervisors.indexOf(agent)), ...handing, agent].map(
        ({ name }) => name
      )
      return yield* invalid(
        `it works for itself (${line.join(" > ")}); give the work to another agent, or hand over`
      )
    }
    if (!agentName.test(agent.name)) {
      return yield* invalid("its name must be 1 to 64 letters, digits, '_', '.' or '-'")
    }
    // It need not have been made by `Agent.make`.
    const problem = definitionProblem(agent.name, agent.options)
    if (problem !== undefined) return yield* problem
    yield* Effect.fromResult(definedPolicy(agent.name, agent.policy))
    const limits = { ...Limits_.defaults, ...agent.options.limits }
    if (agent.options.limits !== undefined) {
      const checked = decodeLimits(limits)
      if (Result.isFailure(checked)) return yield* invalid(`its limits are none: ${checked.failure.message}`)
    }
    const entries = new Map<string, Entry>()
    const definitions: Array<ToolDefinition> = []
    /** Registers a tool under its names, and shows it to the model. */
    const register = Effect.fnUntraced(function* (
      entry: Entry,
      {
        aliases = [],
        description
      }: { readonly aliases?: ReadonlyArray<string>; readonly description: string },
      place = definitions.length
    ) {
      for (const tool of [entry.name, ...aliases]) {
        if (entries.has(tool)) return yield* new ToolNameTaken({ agent: agent.name, tool })
        entries.set(tool, entry)
      }
      definitions.splice(place, 0, { name: entry.name, description, parameters: entry.decoder.jsonSchema })
    })
    const identities: Record<string, string> = {}
    const registerTool = (tool: AnyTool, decoder: Decoder<unknown>, place?: number) => {
      const target = tool.target === "question" ? "question" : "tool"
      const { identity } = tool.options
      if (identity !== undefined) identities[tool.name] = identity
      const definition = {
        agent: agent.name,
        tool: tool.name,
        schema: toolFingerprint(decoder.jsonSchema, identity),
        safety: tool.safety,
        agentAliases: agent.options.aliases ?? [],
        toolAliases: tool.aliases
      }
      return register({ target, name: tool.name, tool, decoder, definition }, tool, place)
    }
    // Tools that go by another name where theirs is taken: after all others, in their own place.
    const yielding: Array<{
      readonly tool: AnyTool
      readonly decoder: Decoder<unknown>
      readonly place: number
    }> = []
    for (const tool of agent.options.tools ?? []) {
      const decoder = yield* checkTool(agent.name, tool)
      if (tool.options.otherNames === undefined) yield* registerTool(tool, decoder)
      else yielding.push({ tool, decoder, place: definitions.length + yielding.length })
    }
    const subAgents = new Map<string, SubAgent>()
    const { subAgents: given = [] } = agent.options
    const siblings = given.map(({ name }) => name)
    const peers = peerNames.peers.filter((name) => name !== agent.name)
    for (const subAgent of given) {
      const bound = yield* bindUnder(subAgent, [...supervisors, agent], siblings, peers)
      if (!toolName.test(subAgent.name)) {
        return yield* invalid(`the sub-agent "${subAgent.name}" must have a name that can be a tool's`)
      }
      const found = { name: subAgent.name, bound }
      for (const name of namesOf(subAgent)) {
        if (subAgents.has(name)) return yield* new ToolNameTaken({ agent: agent.name, tool: name })
        subAgents.set(name, found)
      }
    }
    const successors = successorsOf(agent)
    for (const extension of extensions) {
      for (const tool of extension({ agent, subAgents, handoffs: successors })) {
        const { entry } = tool
        if (entry.target === "handoff" && !toolName.test(entry.name)) {
          return yield* invalid(
            `it cannot hand over to "${entry.to}", whose name must be one that can be a tool's`
          )
        }
        yield* register(entry, tool)
      }
    }
    for (const { decoder, place, tool } of yielding) {
      const isFree = (name: string) => ![name, ...tool.aliases].some((one) => entries.has(one))
      const { identity, otherNames = [] } = tool.options
      // Two tools of one identity are told apart by the names that the program gives them, and never by the order of its tools.
      const isTwin = identity !== undefined && Object.values(identities).includes(identity)
      const name = [tool.name, ...(isTwin ? [] : otherNames)].find(isFree) ?? tool.name
      yield* registerTool({ ...tool, name }, decoder, place)
    }
    const output = agent.options.output === undefined ? undefined : decoder(agent.options.output)
    if (output !== undefined && Result.isFailure(output)) {
      return yield* invalid(`its output schema cannot be shown to a model: ${output.failure}`)
    }
    const { instructions = "" } = agent.options
    const bound: BoundAgent = {
      agent,
      entries,
      definitions,
      path: [agent.name],
      identity: {
        name: agent.name,
        instructions: typeof instructions === "string" ? fingerprint(instructions) : "computed",
        tools: Object.fromEntries(
          definitions.map(({ name, parameters }) => [name, toolFingerprint(parameters, identities[name])])
        ),
        ...(peers.length === 0 ? {} : { peers }),
        ...(peerNames.starterPeers === undefined ? {} : { starterPeers: peerNames.starterPeers })
      },
      limits,
      output: output?.success,
      team
    }
    for (const name of namesOf(agent)) {
      if (team.has(name)) return yield* invalid(`two agents that hand over to each other answer to "${name}"`)
      team.set(name, bound)
    }
    for (const successor of successors) {
      const known = team.get(successor.name)
      if (known === undefined) yield* bind(successor, supervisors, team, peerNames)
      else if (known.agent !== successor) {
        return yield* invalid(`two agents that hand over to each other answer to "${successor.name}"`)
      }
    }
    return bound
  })

const namesOf = ({ name, options }: Agent.Any): ReadonlyArray<string> => [name, ...(options.aliases ?? [])]

/** The agent of this name that an agent gives work to, by a tool of its own or by `delegate`. */
export const subAgentOf = (bound: BoundAgent, name: string): SubAgent | undefined => {
  const entry = bound.entries.get(name)
  if (entry?.target === "agent") return entry
  const delegate = bound.entries.get("delegate")
  return delegate?.target === "delegate" ? delegate.agents.get(name) : undefined
}

/** The sub-agent that a call is about, or none. */
export const calledAgent = (
  bound: BoundAgent,
  call: { readonly name: string; readonly arguments?: Schema.Json }
): SubAgent | undefined => {
  const entry = bound.entries.get(call.name)
  if (entry?.target === "agent") return entry
  if (entry?.target !== "delegate") return undefined
  const args = call.arguments
  if (typeof args !== "object" || args === null || !("agent" in args)) return undefined
  return typeof args.agent === "string" ? entry.agents.get(args.agent) : undefined
}

/** The agent of this name that a conversation can be with: the one that began it, or one that it can go to. */
export const memberOf = (bound: BoundAgent, name: string): BoundAgent | undefined => bound.team.get(name)

/**
 * Who has the conversation of a run now: the agent that began it, or one that took it over. An alias leads to no agent that was there
 * beside it under a name of its own.
 */
export const holderOf = (
  bound: BoundAgent,
  { name, peers }: { readonly name: string; readonly peers?: ReadonlyArray<string> | undefined }
): BoundAgent | undefined => {
  const found = memberOf(bound, name)
  return found === undefined || isOtherAgent(found.agent, name, peers) ? undefined : found
}

/** Whether an agent that answers to a name is another one than had the name, by the agents that were there then. */
export const isOtherAgent = (
  agent: Agent.Any,
  name: string,
  peers: ReadonlyArray<string> | undefined
): boolean => isOther(name, agent.name, agent.options.aliases ?? [], peers)

/** Whether a name that was recorded means this agent. */
export const isAgent = (agent: Agent.Any, name: string, peers: ReadonlyArray<string> | undefined): boolean =>
  isSame(name, agent.name, agent.options.aliases ?? [], peers)

/** The agent with this name or alias among an agent and its sub-agents. */
export const answersTo = (agent: Agent.Any, name: string): boolean =>
  agent.name === name || (agent.options.aliases ?? []).includes(name)
