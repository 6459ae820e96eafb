/**
 * The check of an agent's options, key by key, and of its policy.
 */
import * as Result from "effect/Result"
import type { ApprovalPolicy } from "../../domain/ApprovalPolicy.ts"
import { messageOf } from "../../domain/Display.ts"
import { checkPolicy, limitsShape } from "../../domain/internal/given.ts"
import {
  callable,
  either,
  finite,
  flag,
  fraction,
  jsonObject,
  type Kind,
  oneOf,
  optionMisfits,
  demanded,
  positive,
  type Shape,
  shapeOf,
  string,
  strings
} from "../../domain/internal/misfits.ts"
import { kindOf } from "../../domain/internal/untyped.ts"
import type { Misfit } from "../../domain/Misfit.ts"
import type { ModelSettings } from "../../model/ModelRequest.ts"
import { dataSchemaKind } from "../../tool/internal/dataSchemaKind.ts"
import { toolKind } from "../../tool/internal/definitionOptions.ts"
import { AgentDefinitionError } from "../../tool/ToolError.ts"
import type { AgentOptions, Any } from "../AgentDefinition.ts"

const namedTool: Kind = {
  takes: "{ tool } with a tool's name",
  is: (value) =>
    typeof value === "object" && value !== null && "tool" in value && typeof value.tool === "string"
}

/** An agent, as `Agent.make` returns it. */
export const agentKind: Kind = {
  takes: "an agent, as agent() and Agent.make return it",
  is: (value) =>
    typeof value === "object" &&
    value !== null &&
    "name" in value &&
    typeof value.name === "string" &&
    "options" in value &&
    typeof value.options === "object" &&
    value.options !== null
}

const agents: Kind = {
  takes: "a list of agents",
  is: (value) => Array.isArray(value) && Array.from<unknown>(value).every(agentKind.is)
}

/** The kind of an option that takes a section, as `Section.make` returns it. */
const sectionKind: Kind = {
  takes: "a section, as Section.make returns it: { name, render }",
  is: (value) =>
    typeof value === "object" &&
    value !== null &&
    "name" in value &&
    typeof value.name === "string" &&
    value.name.trim() !== "" &&
    "render" in value &&
    callable.is(value.render)
}

const { keys } = shapeOf<AgentOptions<never, unknown>>({
  instructions: either(string, callable),
  sections: { each: sectionKind },
  tools: { each: toolKind },
  subAgents: { each: agentKind },
  delegation: oneOf("tools", "delegate"),
  handoffs: either(agents, callable),
  output: dataSchemaKind,
  context: dataSchemaKind,
  limits: demanded(limitsShape),
  policy: "anything",
  description: string,
  profile: string,
  settings: demanded(
    shapeOf<ModelSettings>({
      temperature: finite,
      topP: fraction,
      maxOutputTokens: positive,
      stop: strings,
      seed: finite,
      reasoningEffort: oneOf("none", "minimal", "low", "medium", "high", "xhigh", "max"),
      toolChoice: either(oneOf("auto", "none", "required"), namedTool),
      parallelToolCalls: flag,
      extra: jsonObject
    })
  ),
  aliases: strings
})

const instructions = 'the text for the model is "instructions"'
const limits = 'the bounds of a run are in "limits"'

/** Names of other SDKs. */
const shape: Shape = {
  keys: {
    ...keys,
    system: { elsewhere: instructions },
    systemPrompt: { elsewhere: instructions },
    prompt: { elsewhere: instructions },
    model: { elsewhere: 'the model is an option of createFermata, and "profile" names one of its profiles' },
    temperature: { elsewhere: 'it belongs in "settings"' },
    maxTurns: { elsewhere: limits },
    maxSteps: { elsewhere: `${limits}: maxTurns` },
    outputType: { elsewhere: 'the schema of the final answer is "output"' },
    outputSchema: { elsewhere: 'the schema of the final answer is "output"' },
    name: { elsewhere: "the name is the first argument" }
  }
}

/** Returns the agents that an agent hands over to, or the problem of its `handoffs`. */
export const handoffsOf = ({
  name: agent,
  options: { handoffs = [] }
}: Any): Result.Result<ReadonlyArray<Any>, AgentDefinitionError> => {
  const invalid = (problem: string) => Result.fail(new AgentDefinitionError({ agent, problem }))
  try {
    const given: unknown = typeof handoffs === "function" ? handoffs() : handoffs
    return agents.is(given)
      ? Result.succeed(given as ReadonlyArray<Any>)
      : invalid(`its "handoffs" return ${kindOf(given)}, and have to return ${agents.takes}`)
  } catch (error) {
    return invalid(`its "handoffs" failed: ${messageOf(error)}`)
  }
}

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
