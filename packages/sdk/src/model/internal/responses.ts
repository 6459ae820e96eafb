/**
 * The protocol of `/responses`, as OpenAI defined it and as DeepSeek, LM Studio, OpenRouter, vLLM and others speak it.
 *
 * By default the provider keeps nothing (`store: false`): a turn's items go back with every request, its reasoning encrypted.
 * `stop` and `seed` do not exist here and are left out. Reasoning summaries are not asked for, since some accounts may not have
 * them; `extra: { reasoning: { effort, summary } }` asks.
 */
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { InvalidResponse, ModelError } from "../ModelError.ts"
import type { ModelResponse } from "../ModelPart.ts"
import { makeCollector } from "../ModelPart.ts"
import type { ModelProfile } from "../ModelProfile.ts"
import type { ModelRequest, ModelSettings, ToolDefinition } from "../ModelRequest.ts"
import { wireName } from "./wireName.ts"
import { reasonOf } from "./errors.ts"
import { fieldsOf } from "./fields.ts"
import { outputInWords } from "./outputInWords.ts"
import type { Protocol } from "./protocol.ts"
import { providerOf } from "./protocol.ts"
import { responsesDecoder } from "./responsesDecoder.ts"
import { encodeInput } from "./responsesInput.ts"
import { allowsStrict } from "./strictSchema.ts"

const encode = (request: ModelRequest, profile: ModelProfile, streaming: boolean): Schema.JsonObject => {
  const { messages, output, tools } = request
  const compatibility = profile.compatibility ?? {}
  const settings = { ...profile.settings, ...request.settings }
  const store = compatibility.store === true
  const asked = compatibility.structuredOutput ?? "jsonSchema"
  const instructions =
    output === undefined || asked === "jsonSchema"
      ? request.instructions
      : outputInWords(request.instructions, output.schema)
  const isStrict = (schema: Schema.JsonObject) => compatibility.strict === true && allowsStrict(schema)
  const effort = compatibility.reasoningEffort === false ? undefined : settings.reasoningEffort
  const toTools = (field: string, value: Schema.Json | undefined) =>
    tools.length === 0 ? {} : given(field, value)
  return {
    model: profile.model,
    ...(instructions === "" ? {} : { instructions }),
    input: encodeInput(messages, profile),
    stream: streaming,
    store,
    ...(store || !mayReason(profile.model) ? {} : { include: ["reasoning.encrypted_content"] }),
    ...(tools.length === 0
      ? {}
      : { tools: tools.map((tool) => encodeTool(tool, isStrict(tool.parameters))) }),
    ...toTools("tool_choice", encodeChoice(settings.toolChoice)),
    ...toTools(
      "parallel_tool_calls",
      compatibility.parallelToolCalls === false ? undefined : settings.parallelToolCalls
    ),
    ...(output === undefined || asked === "none"
      ? {}
      : {
          text: { format: asked === "jsonSchema" ? schemaFormat(output, isStrict) : { type: "json_object" } }
        }),
    ...given(
      "max_output_tokens",
      compatibility.maxOutputTokens === false
        ? undefined
        : lowest(settings.maxOutputTokens, profile.maxOutputTokens)
    ),
    ...given("temperature", settings.temperature),
    ...given("top_p", settings.topP),
    ...(effort === undefined ? {} : { reasoning: { effort } }),
    ...profile.settings?.extra,
    ...request.settings?.extra
  }
}

const given = (field: string, value: Schema.Json | undefined): Schema.JsonObject =>
  value === undefined ? {} : { [field]: value }

/** A bound that is asked for, no higher than what the model can do. */
const lowest = (asked: number | undefined, possible: number | undefined): number | undefined =>
  asked === undefined || possible === undefined ? asked : Math.min(asked, possible)

/** OpenAI refuses to include the reasoning of models that have none. */
const mayReason = (model: string): boolean =>
  !/(?:^|[/.])(?:chatgpt|gpt-3|gpt-4|gpt-5(?:\.\d+)?-chat)/.test(model)

/** Always says whether it is strict: left out, OpenAI takes it for strict. */
const encodeTool = (
  { description, name, parameters }: ToolDefinition,
  strict: boolean
): Schema.JsonObject => ({
  type: "function",
  name,
  description,
  parameters,
  strict
})

const encodeChoice = (choice: ModelSettings["toolChoice"]): Schema.Json | undefined =>
  typeof choice === "object" ? { type: "function", name: choice.tool } : choice

const schemaFormat = (
  { name, schema }: NonNullable<ModelRequest["output"]>,
  isStrict: (schema: Schema.JsonObject) => boolean
): Schema.JsonObject => ({ type: "json_schema", name: wireName(name), schema, strict: isStrict(schema) })

/** A whole answer is read as the last event of a stream would be. */
const decode = (body: unknown, profile: ModelProfile): Result.Result<ModelResponse, ModelError> => {
  const response = fieldsOf(body)
  if (response === undefined || (!Array.isArray(response.output) && typeof response.status !== "string")) {
    const reason =
      fieldsOf(response?.error) === undefined && response?.type !== "error" ? notAnAnswer() : reasonOf(body)
    return Result.fail(new ModelError({ reason }))
  }
  const collector = makeCollector()
  const decoder = responsesDecoder(providerOf(profile))
  const error = decoder.last(response) ?? decoder.end(collector.add)
  const answer = collector.response()
  return error === undefined && answer !== undefined
    ? Result.succeed(answer)
    : Result.fail(error ?? new ModelError({ reason: notAnAnswer() }))
}

const notAnAnswer = () =>
  new InvalidResponse({
    description:
      "What came back is not a response object. Check the profile's base URL, and that the server speaks this protocol."
  })

/** The `/responses` protocol. */
export const responses: Protocol = {
  path: "/responses",
  headers: {},
  encode,
  decoder: (profile) => responsesDecoder(providerOf(profile)),
  decode
}
