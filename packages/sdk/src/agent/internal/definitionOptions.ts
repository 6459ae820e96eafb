/**
 * What the definition of an agent may have, key by key.
 */
import * as Result from "effect/Result"
import { checkPolicy, limitsShape } from "../../domain/internal/given.ts"
import {
  callable,
  either,
  list,
  oneOf,
  optionMisfits,
  demanded,
  shapeOf,
  string,
  strings
} from "../../domain/internal/misfits.ts"
import type { Misfit } from "../../domain/OptionsInvalid.ts"
import type { ModelSettings } from "../../model/ModelRequest.ts"
import { AgentDefinitionError } from "../../tool/ToolError.ts"
import type { AgentOptions } from "../Agent.ts"

const shape = shapeOf<AgentOptions<never, unknown>>({
  instructions: either(string, callable),
  tools: list,
  subAgents: list,
  delegation: oneOf("tools", "delegate"),
  handoffs: either(list, callable),
  output: "anything",
  limits: demanded(limitsShape),
  policy: "anything",
  description: string,
  profile: string,
  settings: demanded(
    shapeOf<ModelSettings>({
      temperature: "anything",
      topP: "anything",
      maxOutputTokens: "anything",
      stop: "anything",
      seed: "anything",
      reasoningEffort: "anything",
      toolChoice: "anything",
      parallelToolCalls: "anything",
      extra: "anything"
    })
  ),
  aliases: strings
})

/** What of an agent's definition does not fit, or `undefined`. */
export const definitionProblem = (agent: string, options: unknown): AgentDefinitionError | undefined => {
  const misfits: ReadonlyArray<Misfit> = optionMisfits(options, shape, "its definition")
  if (misfits.length > 0) {
    return new AgentDefinitionError({
      agent,
      problem: misfits.map(({ problem }) => problem).join("; "),
      misfits
    })
  }
  const { policy } = options as AgentOptions<never, unknown>
  const checked = policy === undefined ? Result.void : checkPolicy(policy)
  if (Result.isSuccess(checked)) return undefined
  return new AgentDefinitionError({
    agent,
    problem: `its policy cannot be used: ${checked.failure.issues}`,
    ...(checked.failure.misfits === undefined ? {} : { misfits: checked.failure.misfits })
  })
}
