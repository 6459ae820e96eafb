/**
 * Makes a runtime of each agent of a Fermata, to be found by the agent's definition, name or alias.
 */
import * as Effect from "effect/Effect"
import type { Agent, Any } from "../../agent/AgentDefinition.ts"
import { answersTo } from "../../agent/BoundAgent.ts"
import { createRuntime } from "../../agent/createRuntime.ts"
import { agentKind } from "../../agent/internal/definitionOptions.ts"
import { ProgramAgents } from "../../agent/internal/ruleTools.ts"
import { RunIds } from "../../agent/RunIds.ts"
import type * as Runtime from "../../agent/Runtime.ts"
import { kindOf } from "../../domain/internal/untyped.ts"
import { AgentNotFound } from "../../domain/RunError.ts"
import { AgentDefinitionError } from "../../tool/ToolError.ts"
import type { FermataOptions, OfAgent } from "./options.ts"
import { holdTools, toolsIn } from "./toolResources.ts"

/** Throws `AgentDefinitionError` if two agents have the same name or alias. */
export const requireDistinct = (agents: FermataOptions["agents"]): void => {
  const names = new Set<string>()
  for (const { name, options } of agents) {
    for (const known of [name, ...(options.aliases ?? [])]) {
      if (names.has(known)) {
        throw new AgentDefinitionError({
          agent: name,
          problem: `another agent has the name or alias "${known}"`
        })
      }
      names.add(known)
    }
  }
}

/** The options of the runtimes of a Fermata. */
export type SharedOptions = Omit<Runtime.RuntimeOptions<never, unknown>, "agent" | "peers">

/**
 * Creates a runtime for each agent, which is closed with the scope, and uses the resources of its tools until then. `all` are the agents of
 * the Fermata, which may share policies.
 */
export const createRuntimes = (
  agents: FermataOptions["agents"],
  options: SharedOptions,
  all: ReadonlyArray<Any>
) =>
  Effect.forEach(agents, (agent) =>
    Effect.andThen(
      // Before the runtime is created, so that it is closed first.
      Effect.suspend(() => holdTools(agent.name, toolsIn(agent))),
      createRuntime({ ...options, agent, peers: all.map(({ name }) => name) })
    )
  ).pipe(Effect.provideService(ProgramAgents, all))

export const bindAgents = Effect.fnUntraced(function* (
  agents: FermataOptions["agents"],
  options: SharedOptions
) {
  const runtimes = new Map<Any, Runtime.Runtime>()
  const all: Array<Runtime.Runtime> = []
  const names = () => all.map(({ agent }) => agent.name)
  const replace = (next: ReadonlyArray<Runtime.Runtime>): void => {
    all.splice(0, all.length, ...next)
    runtimes.clear()
    for (const runtime of next) runtimes.set(runtime.agent, runtime)
  }
  const notFound = (agent: string) => new AgentNotFound({ agent, known: names() })
  const find = (name: string) => all.find(({ agent }) => answersTo(agent, name))
  const named = (name: string): Runtime.Runtime => {
    const runtime = find(name)
    if (runtime === undefined) throw notFound(name)
    return runtime
  }
  replace(yield* createRuntimes(agents, options, agents))
  return {
    /** The runtimes. `replace` changes this list. */
    all: all as ReadonlyArray<Runtime.Runtime>,
    names,
    replace,
    find,
    notFound,
    /** Returns the runtime of the agent with this name or alias. Throws `AgentNotFound`. */
    named,
    newRunId: () => (all[0]?.ids ?? RunIds.defaultValue()).runId(Date.now()),
    /** Returns the runtime of an agent by its definition, name or alias. Throws `AgentNotFound`. */
    of: <Output>(agent: string | Agent<never, Output>): Runtime.Runtime<Output> =>
      (typeof agent === "string"
        ? named(agent)
        : (runtimes.get(agent) ?? named(nameOf(agent, names())))) as Runtime.Runtime<Output>,
    /** Returns the agent of a stored run that a caller named, if any, by its definition. Throws `AgentNotFound`. */
    given: <Output>({ agent }: OfAgent<Output>): { readonly agent?: Agent<never, Output> } => {
      if (agent === undefined) return {}
      if (typeof agent !== "string" && agentKind.is(agent)) return { agent }
      const name = typeof agent === "string" ? agent : nameOf(agent, names())
      return { agent: named(name).agent as Agent<never, Output> }
    }
  }
})

/** The agents of a Fermata, bound. */
export type Agents = Effect.Success<ReturnType<typeof bindAgents>>

/** The name of an agent. Throws `AgentNotFound` for a value that is no agent, which is possible in a program without types. */
export const nameOf = (agent: Any | null | undefined, known: ReadonlyArray<string>): string => {
  if (typeof agent?.name === "string") return agent.name
  const given = kindOf(agent)
  throw new AgentNotFound({ agent: given, given, known })
}
