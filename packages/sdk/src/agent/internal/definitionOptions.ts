/**
 * The check of an agent's options, key by key, and of its policy.
 */
import * as Result from "effect/Result"
import type { ApprovalPolicy } from "../../domain/ApprovalPolicy.ts"
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
import type { Misfit } from "../../domain/Misfit.ts"
import type { ModelSettings } from "../../model/ModelRequest.ts"
import { AgentDefinitionError } from "../../tool/ToolError.ts"
import type { AgentOptions } from "../AgentDefinition.ts"

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

/** Returns the problems of an agent's options as one error; `undefined` if there are none. */
export const definitionProblem = (agent: string, options: unknown): AgentDefinitionError | undefined => {
  const misfits: ReadonlyArray<Misfit> = optionMisfits(options, shape, "its definition")
  return misfits.length === 0
    ? undefined
    : new AgentDefinitionError({ agent, problem: misfits.map(({ problem }) => problem).join("; "), misfits })
}

/** Returns a copy of an agent's policy, or the error of an invalid one. */
export const definedPolicy = (
  agent: string,
  policy: unknown
): Result.Result<ApprovalPolicy, AgentDefinitionError> =>
  Result.mapError(
    checkPolicy(policy),
    ({ issues, misfits }) =>
      new AgentDefinitionError({
        agent,
        problem: `its policy cannot be used: ${issues}`,
        ...(misfits === undefined ? {} : { misfits })
      })
  )
