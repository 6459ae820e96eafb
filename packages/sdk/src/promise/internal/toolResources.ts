/**
 * Uses the resources of an agent's tools for as long as a scope is open.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Any } from "../../agent/AgentDefinition.ts"
import { redactCause } from "../../agent/internal/causes.ts"
import { handoffsOf } from "../../agent/internal/definitionOptions.ts"
import { sentence } from "../../domain/Display.ts"
import { contained, Scrubber } from "../../tool/Scrubber.ts"
import type { AnyTool } from "../../tool/Tool.ts"
import { AgentDefinitionError } from "../../tool/ToolError.ts"
import { resourceOf, type ToolResource } from "../../tool/ToolResource.ts"

/** Uses the resources of these tools of an agent. Fails with `AgentDefinitionError` if one of them is closed. */
export const holdTools = Effect.fnUntraced(function* (agent: string, tools: Iterable<AnyTool>) {
  const scrubber = contained(yield* Scrubber)
  const used = new Set<ToolResource>()
  for (const tool of tools) {
    const resource = resourceOf(tool)
    if (resource === undefined || used.has(resource)) continue
    if (resource.isClosed()) {
      const problem = `the resource of its tool "${tool.name}" was closed, such as the connection to its server: make the tool again`
      return yield* new AgentDefinitionError({ agent, problem })
    }
    used.add(resource)
    yield* Effect.acquireRelease(
      Effect.sync(() => resource.use()),
      (end) =>
        Effect.catchCause(Effect.promise(end), (cause) =>
          Effect.logWarning(
            sentence`The resource of the tool "${tool.name}" could not be closed.`,
            redactCause(scrubber, cause)
          )
        )
    )
  }
})

/** The tools of an agent and of the agents that it can call or hand over to, directly or through others. */
export const toolsIn = (agent: Any, seen = new Set<Any>()): ReadonlyArray<AnyTool> => {
  if (seen.has(agent)) return []
  seen.add(agent)
  const { subAgents = [], tools = [] } = agent.options
  // Handoffs that cannot be read are refused where the agent is bound.
  const others = [...subAgents, ...Result.getOrElse(handoffsOf(agent), () => [])]
  return [...tools, ...others.flatMap((other) => toolsIn(other, seen))]
}
