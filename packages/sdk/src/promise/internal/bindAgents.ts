/**
 * The agents of a Fermata, each bound to what its runs need, found by their definitions and by their names.
 */
import * as Effect from "effect/Effect"
import type { Agent, Any } from "../../agent/AgentDefinition.ts"
import { answersTo } from "../../agent/BoundAgent.ts"
import * as Runtime from "../../agent/Runtime.ts"
import { kindOf } from "../../domain/internal/untyped.ts"
import { AgentNotFound } from "../../domain/RunError.ts"
import { AgentDefinitionError } from "../../tool/ToolError.ts"
import type { FermataOptions } from "./options.ts"

/** Throws `AgentDefinitionError` for two agents that answer to one name. */
export const requireDistinct = (agents: FermataOptions["agents"]): void => {
  const names = new Set<string>()
  for (const { name, options } of agents) {
    for (const known of [name, ...(options.aliases ?? [])]) {
      if (names.has(known)) {
        throw new AgentDefinitionError({ agent: name, problem: `another agent answers to "${known}"` })
      }
      names.add(known)
    }
  }
}

export const bindAgents = Effect.fnUntraced(function* (
  agents: FermataOptions["agents"],
  options: Omit<Runtime.RuntimeOptions<never, unknown>, "agent" | "peers">
) {
  const names = agents.map(({ name }) => name)
  const runtimes = new Map<Any, Runtime.Runtime>()
  for (const agent of agents) {
    runtimes.set(agent, yield* Runtime.make({ ...options, agent, peers: names }))
  }
  const all: ReadonlyArray<Runtime.Runtime> = [...runtimes.values()]
  const notFound = (agent: string) => new AgentNotFound({ agent, known: names })
  const find = (name: string) => all.find(({ agent }) => answersTo(agent, name))
  const named = (name: string): Runtime.Runtime => {
    const runtime = find(name)
    if (runtime === undefined) throw notFound(name)
    return runtime
  }
  return {
    all,
    find,
    notFound,
    /** The runtime of the agent that answers to a name. Throws `AgentNotFound`. */
    named,
    /** The same of an agent by its definition, too. */
    of: <Output>(agent: string | Agent<never, Output>): Runtime.Runtime<Output> =>
      (typeof agent === "string"
        ? named(agent)
        : (runtimes.get(agent) ?? named(nameOf(agent)))) as Runtime.Runtime<Output>
  }
})

/** The name of an agent, also of what a program without types gave as one. */
const nameOf = (agent: Any | null | undefined): string =>
  typeof agent?.name === "string" ? agent.name : kindOf(agent)
