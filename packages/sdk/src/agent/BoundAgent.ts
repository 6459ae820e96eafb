/**
 * An agent whose definition was checked and whose tools can be looked up by name.
 *
 * Binding refuses an invalid definition before anything runs, for example because of two tools with one name, a schema without a JSON
 * Schema, or a name that providers refuse. The error names the first problem.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { fingerprint } from "../domain/internal/fingerprint.ts"
import { canonicalJson } from "../domain/internal/json.ts"
import * as Limits_ from "../domain/Limits.ts"
import { type Definition, isOther, isSame } from "../domain/ToolIdentity.ts"
import type { ToolDefinition } from "../model/ModelRequest.ts"
import { type Decoder, decoder } from "../tool/DataSchema.ts"
import { contextDecoder } from "../tool/internal/decodeContext.ts"
import type { AnyTool } from "../tool/Tool.ts"
import { AgentDefinitionError, type ToolDefinitionError, ToolNameTaken } from "../tool/ToolError.ts"
import type * as Agent from "./Agent.ts"
import type { BoundAgent, Entry, SubAgent } from "./Entry.ts"
import { extensions } from "./internal/agentTools.ts"
import { checkTool, toolName, toolNameRule } from "./internal/checkTool.ts"
import { definedPolicy, definitionProblem, handoffsOf } from "./internal/definitionOptions.ts"

export { fingerprint } from "../domain/internal/fingerprint.ts"
export type { BoundAgent, Entry, SubAgent } from "./Entry.ts"

/** The errors of a definition. */
export type DefinitionError = ToolNameTaken | ToolDefinitionError | AgentDefinitionError

const agentName = /^[A-Za-z0-9_.-]{1,64}$/

const decodeLimits = Schema.decodeUnknownResult(Limits_.Limits)

/** What a tool declares that an approval of a call is bound to besides its schema. */
type Declared = Pick<AnyTool["options"], "identity" | "secrets">

/**
 * Identifies a tool in addition to its name: a hash of its argument schema and of whether it resolves references to secrets, then its
 * `identity` if it declares one. So a text that was approved as a text is not resolved by a later version of the tool.
 */
const toolFingerprint = (parameters: Schema.JsonObject, { identity, secrets }: Declared = {}): string => {
  const hashed = secrets === undefined ? parameters : { parameters, secrets: true }
  return `${fingerprint(canonicalJson(hashed))}${identity === undefined ? "" : ` ${identity}`}`
}

/**
 * Checks the definition of an agent, of its sub-agents and of the agents that it hands over to, and binds their tools by name.
 *
 * **Errors**
 *
 * - `ToolNameTaken`, `ToolDefinitionError`, `AgentDefinitionError` — correct the definition.
 */
export const make = (
  agent: Agent.Any,
  /** Names of the program's other agents. */
  peers: ReadonlyArray<string> = []
): Effect.Effect<BoundAgent, DefinitionError> =>
  Effect.andThen(checkDefinitions(agent), bindUnder(agent, [], peers))

/**
 * Checks the options of an agent, of its sub-agents and of the agents that it hands over to, and fails with the first problem. `Agent.make`
 * has checked its own options alone; a definition from elsewhere, or handoffs that a function returns, are checked only here.
 */
export const checkDefinitions = (
  agent: Agent.Any,
  checked = new Set<Agent.Any>()
): Effect.Effect<void, AgentDefinitionError> =>
  Effect.gen(function* () {
    if (checked.has(agent)) return
    checked.add(agent)
    const problem = definitionProblem(agent.name, agent.options)
    if (problem !== undefined) return yield* problem
    const successors = yield* Effect.fromResult(handoffsOf(agent))
    for (const other of [...successors, ...(agent.options.subAgents ?? [])]) {
      yield* checkDefinitions(other, checked)
    }
  })

/** The names of the agents beside an agent, and of those beside the agent that starts it; see `AgentIdentity`. */
interface PeerNames {
  readonly peers: ReadonlyArray<string>
  readonly starterPeers?: ReadonlyArray<string>
}

const bindUnder = (
  agent: Agent.Any,
  /** The agents that this agent works for, the innermost last. */
  leads: ReadonlyArray<Agent.Any>,
  otherPeers: ReadonlyArray<string>,
  starterPeers: ReadonlyArray<string> = []
): Effect.Effect<BoundAgent, DefinitionError> =>
  Effect.suspend(() => {
    const peers = [...new Set([...teamNames(agent), ...otherPeers])]
    return bind(agent, leads, new Map(), {
      peers,
      ...(starterPeers.length > 0 ? { starterPeers } : {})
    })
  })

/** The names of an agent and of the agents that it hands over to, directly or through others. */
export const teamNames = (agent: Agent.Any, found = new Set<string>()): ReadonlySet<string> => {
  if (found.has(agent.name)) return found
  found.add(agent.name)
  for (const successor of successorsOf(agent)) teamNames(successor, found)
  return found
}

const successorsOf = ({ options: { handoffs = [] } }: Agent.Any): ReadonlyArray<Agent.Any> =>
  typeof handoffs === "function" ? handoffs() : handoffs

/** Binds an agent and the agents that it hands over to, each once. */
const bind = (
  agent: Agent.Any,
  leads: ReadonlyArray<Agent.Any>,
  team: Map<string, BoundAgent>,
  peerNames: PeerNames
): Effect.Effect<BoundAgent, DefinitionError> =>
  Effect.gen(function* () {
    const invalid = (problem: string) => new AgentDefinitionError({ agent: agent.name, problem })
    if (leads.includes(agent)) {
      // The cycle may lead through handoffs.
      const handing = new Set([...team.values()].map((other) => other.agent))
      const line = [...leads.slice(leads.indexOf(agent)), ...handing, agent].map(({ name }) => name)
      return yield* invalid(
        `it is a sub-agent of itself (${line.join(" > ")}); use another agent, or a handoff`
      )
    }
    if (!agentName.test(agent.name)) {
      return yield* invalid("its name must be 1 to 64 letters, digits, '_', '.' or '-'")
    }
    yield* Effect.fromResult(definedPolicy(agent.name, agent.policy))
    const limits = { ...Limits_.defaults, ...agent.options.limits }
    if (agent.options.limits !== undefined) {
      const checked = decodeLimits(limits)
      if (Result.isFailure(checked))
        return yield* invalid(`its limits are invalid: ${checked.failure.message}`)
    }
    const entries = new Map<string, Entry>()
    const definitions: Array<ToolDefinition> = []
    /** Registers a tool under its name and aliases, and inserts its definition for the model at `place`. */
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
    const definitionOf = (
      tool: string,
      schema: string,
      { aliases, safety }: Pick<AnyTool, "aliases" | "safety">
    ): Definition => ({
      agent: agent.name,
      tool,
      schema,
      safety,
      agentAliases: agent.options.aliases ?? [],
      toolAliases: aliases
    })
    const declared: Record<string, Declared> = {}
    const registerTool = (tool: AnyTool, decoder: Decoder<unknown>, place?: number) => {
      const target = tool.target === "question" ? "question" : "tool"
      declared[tool.name] = tool.options
      const definition = definitionOf(tool.name, toolFingerprint(decoder.jsonSchema, tool.options), tool)
      return register({ target, name: tool.name, tool, decoder, definition }, tool, place)
    }
    // Tools with `otherNames` get their name after all others, because they give way to them, and keep their place in the definitions.
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
      const bound = yield* bindUnder(subAgent, [...leads, agent], siblings, peers)
      if (!toolName.test(subAgent.name)) {
        return yield* invalid(
          `the name of the sub-agent "${subAgent.name}" must also be valid for a tool: ${toolNameRule}`
        )
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
            `it cannot hand over to "${entry.to}": the name of the tool "${entry.name}" must be ${toolNameRule}`
          )
        }
        const schema = toolFingerprint(entry.decoder.jsonSchema)
        const { aliases = [] } = tool
        const definition = definitionOf(entry.name, schema, { aliases, safety: "sideEffecting" })
        yield* register({ ...entry, definition }, tool)
      }
    }
    for (const { decoder, place, tool } of yielding) {
      const isFree = (name: string) => ![name, ...tool.aliases].some((one) => entries.has(one))
      const { identity, otherNames = [] } = tool.options
      // Tools with one identity keep the names that the program gave them. Otherwise the order of the tools would decide which is which.
      const isTwin =
        identity !== undefined && Object.values(declared).some((other) => other.identity === identity)
      const name = [tool.name, ...(isTwin ? [] : otherNames)].find(isFree) ?? tool.name
      yield* registerTool({ ...tool, name }, decoder, place)
    }
    const output = agent.options.output === undefined ? undefined : decoder(agent.options.output)
    if (output !== undefined && Result.isFailure(output)) {
      return yield* invalid(`its output schema cannot be shown to a model: ${output.failure}`)
    }
    const context = agent.options.context === undefined ? undefined : contextDecoder(agent.options.context)
    if (context !== undefined && Result.isFailure(context)) {
      return yield* invalid(`its context schema cannot be used: ${context.failure}`)
    }
    const { instructions = "", sections = [] } = agent.options
    const twice = sections.find(
      ({ name }, index) => sections.findIndex((other) => other.name === name) < index
    )
    if (twice !== undefined) return yield* invalid(`two of its sections have the name "${twice.name}"`)
    const bound: BoundAgent = {
      agent,
      entries,
      definitions,
      path: [agent.name],
      identity: {
        name: agent.name,
        instructions: typeof instructions === "string" ? fingerprint(instructions) : "computed",
        tools: Object.fromEntries(
          definitions.map(({ name, parameters }) => [name, toolFingerprint(parameters, declared[name])])
        ),
        ...(peers.length === 0 ? {} : { peers }),
        ...(peerNames.starterPeers === undefined ? {} : { starterPeers: peerNames.starterPeers })
      },
      limits,
      output: output?.success,
      team
    }
    for (const name of namesOf(agent)) {
      if (team.has(name))
        return yield* invalid(`two agents connected by handoffs have the name or alias "${name}"`)
      team.set(name, bound)
    }
    for (const successor of successors) {
      const known = team.get(successor.name)
      if (known === undefined) yield* bind(successor, leads, team, peerNames)
      else if (known.agent !== successor) {
        return yield* invalid(`two agents connected by handoffs have the name or alias "${successor.name}"`)
      }
    }
    return bound
  })

const namesOf = ({ name, options }: Agent.Any): ReadonlyArray<string> => [name, ...(options.aliases ?? [])]

/** The sub-agent with this name or alias, which is a tool of its own or an argument of `delegate`; `undefined` if there is none. */
export const subAgentOf = (bound: BoundAgent, name: string): SubAgent | undefined => {
  const entry = bound.entries.get(name)
  if (entry?.target === "agent") return entry
  const delegate = bound.entries.get("delegate")
  return delegate?.target === "delegate" ? delegate.agents.get(name) : undefined
}

/** The sub-agent that a call starts; `undefined` if the call starts none. */
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

/**
 * The agent with this name or alias among a bound agent and those that it hands over to, directly or through others; `undefined` if there
 * is none.
 */
export const memberOf = (bound: BoundAgent, name: string): BoundAgent | undefined => bound.team.get(name)

/**
 * The agent that has the conversation of a run: the agent that began it, or one that took it over. Returns `undefined` if none has the
 * recorded name or alias, or if the found agent existed beside the recorded one (`peers`) and is therefore another.
 */
export const holderOf = (
  bound: BoundAgent,
  { name, peers }: { readonly name: string; readonly peers?: ReadonlyArray<string> | undefined }
): BoundAgent | undefined => {
  const found = memberOf(bound, name)
  return found === undefined || isOtherAgent(found.agent, name, peers) ? undefined : found
}

/**
 * Whether an agent that has a recorded name as an alias is not the one that was recorded: it existed beside that one under its own name or
 * another alias. `peers` are the names of the agents that existed when the name was recorded.
 */
export const isOtherAgent = (
  agent: Agent.Any,
  name: string,
  peers: ReadonlyArray<string> | undefined
): boolean => isOther(name, agent.name, agent.options.aliases ?? [], peers)

/**
 * Whether a recorded name refers to this agent, by its name, or by an alias unless it {@link isOtherAgent}. `peers` are the names of the
 * agents that existed when the name was recorded.
 */
export const isAgent = (agent: Agent.Any, name: string, peers: ReadonlyArray<string> | undefined): boolean =>
  isSame(name, agent.name, agent.options.aliases ?? [], peers)

/** Whether an agent has this name or alias. */
export const answersTo = (agent: Agent.Any, name: string): boolean =>
  agent.name === name || (agent.options.aliases ?? []).includes(name)
