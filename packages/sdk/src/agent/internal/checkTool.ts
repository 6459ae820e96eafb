/**
 * The check of a tool's definition, made when its agent is bound.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { millisOf } from "../../domain/internal/untyped.ts"
import { Safety } from "../../domain/Interruption.ts"
import type { Decoder } from "../../tool/DataSchema.ts"
import { contextDecoder } from "../../tool/internal/decodeContext.ts"
import { definitionMisfits } from "../../tool/internal/definitionOptions.ts"
import type { AnyTool } from "../../tool/Tool.ts"
import { ToolDefinitionError } from "../../tool/ToolError.ts"
import type { ApprovalOptions } from "../../tool/ToolOptions.ts"

/** The tool names that both OpenAI's and Anthropic's APIs accept. */
export const toolName = /^[a-zA-Z0-9_-]{1,64}$/

/** {@link toolName} in words. */
export const toolNameRule = "1 to 64 letters, digits, '_' or '-'"

/** Checks a tool's definition. Returns the decoder of its arguments. */
export const checkTool = (
  agent: string,
  tool: AnyTool
): Effect.Effect<Decoder<unknown>, ToolDefinitionError> => {
  const invalid = (problem: string) =>
    Effect.fail(new ToolDefinitionError({ agent, tool: tool.name, problem }))
  if (![tool.name, ...(tool.options.otherNames ?? [])].every((name) => toolName.test(name))) {
    return invalid(`its name must be ${toolNameRule}`)
  }
  const misfits = definitionMisfits(tool.options)
  if (misfits.length > 0) {
    const problem = misfits.map(({ problem }) => problem).join("; ")
    return Effect.fail(new ToolDefinitionError({ agent, tool: tool.name, problem, misfits }))
  }
  if (typeof tool.idempotent !== "boolean") return invalid('its "idempotent" takes true or false')
  if (!Safety.literals.includes(tool.safety)) {
    return invalid(`its safety must be one of ${Safety.literals.join(", ")}`)
  }
  if (typeof tool.options.handler !== "function") return invalid("it has no handler")
  const { parameters } = tool
  if (Result.isFailure(parameters)) {
    return invalid(`its parameters cannot be shown to a model: ${parameters.failure}`)
  }
  const { jsonSchema } = parameters.success
  if (jsonSchema["type"] !== "object") {
    return invalid("its parameters must be a struct, since models pass arguments by name")
  }
  const context = tool.options.context === undefined ? undefined : contextDecoder(tool.options.context)
  if (context !== undefined && Result.isFailure(context)) {
    return invalid(`its context schema cannot be used: ${context.failure}`)
  }
  if (tool.options.retry !== undefined && tool.safety !== "readOnly" && !tool.idempotent) {
    return invalid("it has a retry policy, which is only for tools that are readOnly or idempotent")
  }
  const expiresIn = tool.options.approval?.expiresIn
  if (expiresIn !== undefined && !((millisOf(expiresIn) ?? 0) > 0)) {
    return invalid('its approval would expire at once: "expiresIn" must be a duration longer than 0')
  }
  if (expiresIn === undefined && tool.options.approval?.onExpiry !== undefined) {
    return invalid('its "onExpiry" has no effect without "expiresIn"')
  }
  const problem = warningProblem(tool.options.approval)
  return problem === undefined ? Effect.succeed(parameters.success) : invalid(problem)
}

/** Why a request of a tool cannot be announced to expire as its options say. */
const warningProblem = ({ expiresIn, onExpiry, warnBefore }: ApprovalOptions = {}): string | undefined => {
  if (warnBefore === undefined) return undefined
  if (expiresIn === undefined) return 'its "warnBefore" has no effect without "expiresIn"'
  if (onExpiry === "stay") return 'its "warnBefore" has no effect with "onExpiry: stay", which never expires'
  const lead = millisOf(warnBefore) ?? 0
  return lead > 0 && lead < (millisOf(expiresIn) ?? 0)
    ? undefined
    : 'its "warnBefore" must be a duration longer than 0 and shorter than "expiresIn"'
}
