/**
 * The tools that a turn is run with: what a capability profile leaves of an agent, and what extensions add, checked and bound.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { AnyServices, AnyTool } from "../tool/Tool.ts"
import type { Awaitable } from "../tool/ToolOptions.ts"
import type { Any, InstructionsContext } from "./AgentDefinition.ts"
import type { DefinitionError } from "./BoundAgent.ts"
import * as BoundAgent_ from "./BoundAgent.ts"
import * as Cancellation from "./Cancellation.ts"
import { allowsAgent, allowsTool, type CapabilityProfile } from "./CapabilityProfile.ts"
import type { BoundAgent } from "./Entry.ts"
import { isPromise } from "./internal/userCode.ts"
import type { AnyExtension, RuntimeContext } from "./RuntimeDefinition.ts"
import { ExtensionFailed } from "./RuntimeError.ts"

/** What keeps the tools of a runtime from being built. */
export type RegistryError = DefinitionError | ExtensionFailed

/** What a runtime that is there already adds. */
export interface RegistryOptions {
  /** What the extensions are told. Default: the agent and the profile, and no runtime. */
  readonly context?: RuntimeContext
  /** Tools in the place of the agent's own. */
  readonly tools?: ReadonlyArray<AnyTool>
  /** Names of the program's other agents. */
  readonly peers?: ReadonlyArray<string>
}

/**
 * Builds what a runtime works with when it is created, and when it is reconfigured; by itself, it tells what a profile leaves of an
 * agent.
 *
 * **Details**
 *
 * The profile's tools, sub-agents and policy hold for the whole tree; its limits, its instructions and the extensions' tools are for the
 * agent that is prompted, and for those that it hands the conversation over to. A model is not shown what the profile leaves out; a call
 * of that which a held run waits for keeps the run held, with `ToolUnavailable` or `AgentNotFound`.
 *
 * **Errors**
 *
 * - `ToolNameTaken`, `ToolDefinitionError`, `AgentDefinitionError` — mend the definition; extensions' tools count.
 * - `ExtensionFailed` — an extension could not make its tools.
 */
export const buildRuntimeRegistry = (
  agent: Any,
  profile: CapabilityProfile,
  extensions: ReadonlyArray<AnyExtension> = [],
  options: RegistryOptions = {}
): Effect.Effect<BoundAgent, RegistryError> =>
  Effect.gen(function* () {
    const { context = contextOf(agent, profile), peers = [], tools } = options
    const added: Array<AnyTool> = []
    for (const extension of extensions) added.push(...(yield* toolsOf(extension, context)))
    // Also those that the profile leaves out: they are other agents all the same.
    const allPeers = [...BoundAgent_.teamNames(agent), ...peers]
    return yield* BoundAgent_.make(narrow(agent, profile, added, tools), allPeers)
  })

/** The context where there is no runtime. */
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

const toolsOf = (extension: AnyExtension, context: RuntimeContext) =>
  Effect.try({
    try: () => extension.tools?.(context) ?? [],
    catch: (cause) =>
      new ExtensionFailed({
        extension: extension.name,
        during: "tools",
        description: cause instanceof Error ? cause.message : String(cause)
      })
  })

/** What a profile leaves of an agent and of those under it; the agent itself where that is everything. */
const narrow = (
  root: Any,
  profile: CapabilityProfile,
  added: ReadonlyArray<AnyTool>,
  replaced: ReadonlyArray<AnyTool> | undefined
): Any => {
  const { instructions, limits, model, policy, subAgents, tools } = profile
  const changesNothing = [instructions, limits, model, policy, replaced, subAgents, tools].every(
    (part) => part === undefined
  )
  if (changesNothing && added.length === 0) return root
  // Agents that hand over to each other form a ring: each is narrowed once, for each of its two parts.
  const leading = new Map<Any, Any>()
  const serving = new Map<Any, Any>()
  const narrowed = (agent: Any, leads: boolean, supervisors: ReadonlyArray<Any>): Any => {
    const known = leads ? leading : serving
    const done = known.get(agent)
    if (done !== undefined) return done
    // One that works for itself is refused when it is bound.
    if (supervisors.includes(agent)) return agent
    const { options } = agent
    const { handoffs } = options
    const own = (agent === root && leads ? replaced : undefined) ?? options.tools ?? []
    const chosen = leads ? (model ?? options.profile) : (options.profile ?? model)
    const copy: Any = {
      ...agent,
      policy: policy ?? agent.policy,
      options: {
        ...options,
        tools: [...own, ...(leads ? added : [])].filter((tool) => allowsTool(tools, tool)),
        subAgents: (options.subAgents ?? [])
          .filter((other) => allowsAgent(subAgents, other))
          .map((other) => narrowed(other, false, [...supervisors, agent])),
        ...(handoffs === undefined
          ? {}
          : {
              handoffs: () =>
                (typeof handoffs === "function" ? handoffs() : handoffs)
                  .filter((other) => allowsAgent(subAgents, other))
                  .map((other) => narrowed(other, leads, supervisors))
            }),
        ...(chosen === undefined ? {} : { profile: chosen }),
        ...(policy === undefined ? {} : { policy }),
        ...(leads && limits !== undefined ? { limits: { ...options.limits, ...limits } } : {}),
        ...(leads && instructions !== undefined
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

/** An agent's own instructions and, after them, the profile's. */
const instructed = (own: Instructions | undefined, more: string): Instructions => {
  const join = (text: string) => (text === "" ? more : `${text}\n\n${more}`)
  if (typeof own !== "function") return join(own ?? "")
  return (context: InstructionsContext): Awaitable<string> => {
    const out = own(context)
    if (Effect.isEffect(out)) return Effect.map(out as Effect.Effect<string, unknown>, join)
    return isPromise<string>(out) ? out.then(join) : join(out as string)
  }
}
