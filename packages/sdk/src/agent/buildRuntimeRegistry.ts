/**
 * Builds the registry of a runtime: the tools of the agent and of extensions that a capability profile permits, checked and bound.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { AnyServices, AnyTool } from "../tool/Tool.ts"
import type { Awaitable } from "../tool/ToolOptions.ts"
import type { Any, AnySection, InstructionsContext } from "./AgentDefinition.ts"
import type { DefinitionError } from "./BoundAgent.ts"
import * as BoundAgent_ from "./BoundAgent.ts"
import * as Cancellation from "./Cancellation.ts"
import { allowsAgent, allowsTool, type CapabilityProfile } from "./CapabilityProfile.ts"
import type { BoundAgent } from "./Entry.ts"
import { isPromise } from "./internal/userCode.ts"
import type { AnyExtension, RuntimeContext } from "./RuntimeDefinition.ts"
import { ExtensionFailed } from "./RuntimeError.ts"

/** The errors of {@link buildRuntimeRegistry}. */
export type RegistryError = DefinitionError | ExtensionFailed

/**
 * Options of {@link buildRuntimeRegistry}. A runtime passes its own context, replaced tools and peers; without a runtime, none are needed.
 */
export interface RegistryOptions {
  /** The argument of the extensions' functions. Default: a context with the agent and the profile, and without a runtime. */
  readonly context?: RuntimeContext
  /** Tools that replace those of the agent's definition. The profile restricts them, too. */
  readonly tools?: ReadonlyArray<AnyTool>
  /** Names of the program's other agents. Default: none. */
  readonly peers?: ReadonlyArray<string>
}

/**
 * Applies a capability profile to an agent and to the tools of extensions, and binds the result.
 *
 * **When to use**
 *
 * To find out, without a runtime, which tools and sub-agents a profile permits. `createRuntime` and `reconfigureRuntime` call it themselves.
 *
 * **Details**
 *
 * The profile's tools, sub-agents and policy apply to the whole tree of agents. Its limits, its instructions and the extensions' tools apply
 * to the prompted agent and the agents that it hands over to; its model also to the sub-agents that select none. Models do not see what the
 * profile excludes. A call that waits for an excluded tool or sub-agent cannot run: its run fails to resume with `ToolUnavailable` or
 * `AgentNotFound` if nothing else of it can advance, and stays as it is.
 *
 * **Errors**
 *
 * - `ToolNameTaken`, `ToolDefinitionError`, `AgentDefinitionError` — correct the definition of the agent or of an extension's tool.
 * - `ExtensionFailed` — an extension failed to make its tools.
 */
export const buildRuntimeRegistry = (
  agent: Any,
  profile: CapabilityProfile,
  extensions: ReadonlyArray<AnyExtension> = [],
  options: RegistryOptions = {}
): Effect.Effect<BoundAgent, RegistryError> =>
  Effect.gen(function* () {
    const { context = contextOf(agent, profile), peers = [], tools } = options
    yield* BoundAgent_.checkDefinitions(agent)
    const added: Array<AnyTool> = []
    const sections: Array<AnySection> = []
    for (const extension of extensions) {
      added.push(...(yield* partsOf(extension, "tools", () => extension.tools?.(context) ?? [])))
      sections.push(...(yield* partsOf(extension, "sections", () => extension.sections?.(context) ?? [])))
    }
    // Includes the agents that the profile excludes: an alias must not lead to them either.
    const allPeers = [...BoundAgent_.teamNames(agent), ...peers]
    return yield* BoundAgent_.make(narrow(agent, profile, { tools: added, sections }, tools), allPeers)
  })

/** The context of extensions without a runtime. */
const contextOf = (agent: Any, profile: CapabilityProfile): RuntimeContext => ({
  agent,
  profile,
  mode: profile.mode ?? profile.name,
  services: Context.empty() as AnyServices,
  cancellation: Cancellation.make(),
  runtime: () => {
    throw new Error("There is no runtime here: create one with createRuntime.")
  }
})

const partsOf = <A>(
  { name: extension }: AnyExtension,
  during: "tools" | "sections",
  make: () => ReadonlyArray<A>
) =>
  Effect.try({
    try: make,
    catch: (cause) =>
      new ExtensionFailed({
        extension,
        during,
        description: cause instanceof Error ? cause.message : String(cause)
      })
  })

/** What extensions add to the prompted agent and to the agents that it hands over to. */
interface Added {
  readonly tools: ReadonlyArray<AnyTool>
  readonly sections: ReadonlyArray<AnySection>
}

/** Applies a profile to an agent, its sub-agents and its handoffs. Returns the agent itself if nothing changes. */
const narrow = (
  root: Any,
  profile: CapabilityProfile,
  added: Added,
  replaced: ReadonlyArray<AnyTool> | undefined
): Any => {
  const { instructions, limits, model, policy, subAgents, tools } = profile
  const changesNothing = [instructions, limits, model, policy, replaced, subAgents, tools].every(
    (part) => part === undefined
  )
  if (changesNothing && added.tools.length === 0 && added.sections.length === 0) return root
  // Agents may hand over to each other, so each is narrowed once in each of its two roles.
  const inConversation = new Map<Any, Any>()
  const asSubAgent = new Map<Any, Any>()
  const narrowed = (agent: Any, isInConversation: boolean, leads: ReadonlyArray<Any>): Any => {
    const known = isInConversation ? inConversation : asSubAgent
    const done = known.get(agent)
    if (done !== undefined) return done
    // An agent that is a sub-agent of itself is refused when it is bound.
    if (leads.includes(agent)) return agent
    const { options } = agent
    const { handoffs } = options
    const own = (agent === root && isInConversation ? replaced : undefined) ?? options.tools ?? []
    const chosen = isInConversation ? (model ?? options.profile) : (options.profile ?? model)
    const copy: Any = {
      ...agent,
      policy: policy ?? agent.policy,
      options: {
        ...options,
        tools: [...own, ...(isInConversation ? added.tools : [])].filter((tool) => allowsTool(tools, tool)),
        subAgents: (options.subAgents ?? [])
          .filter((other) => allowsAgent(subAgents, other))
          .map((other) => narrowed(other, false, [...leads, agent])),
        ...(isInConversation && added.sections.length > 0
          ? { sections: [...(options.sections ?? []), ...added.sections] }
          : {}),
        ...(handoffs === undefined
          ? {}
          : {
              handoffs: () =>
                (typeof handoffs === "function" ? handoffs() : handoffs)
                  .filter((other) => allowsAgent(subAgents, other))
                  .map((other) => narrowed(other, isInConversation, leads))
            }),
        ...(chosen === undefined ? {} : { profile: chosen }),
        ...(policy === undefined ? {} : { policy }),
        ...(isInConversation && limits !== undefined ? { limits: { ...options.limits, ...limits } } : {}),
        ...(isInConversation && instructions !== undefined
          ? { instructions: instructed(options.instructions, instructions) }
          : {})
      }
    }
    known.set(agent, copy)
    return copy
  }
  return narrowed(root, true, [])
}

type Instructions = NonNullable<Any["options"]["instructions"]>

/** An agent's own instructions, followed by the profile's. */
const instructed = (own: Instructions | undefined, more: string): Instructions => {
  const join = (text: string) => (text === "" ? more : `${text}\n\n${more}`)
  if (typeof own !== "function") return join(own ?? "")
  return (context: InstructionsContext): Awaitable<string> => {
    const out = own(context)
    if (Effect.isEffect(out)) return Effect.map(out as Effect.Effect<string, unknown>, join)
    return isPromise<string>(out) ? out.then(join) : join(out as string)
  }
}
