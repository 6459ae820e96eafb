/**
 * The protocol of `/chat/completions`, as OpenAI defined it and as the servers speak it that are compatible with it, each in its
 * own way. What differs and cannot be seen from an answer is the profile's `compatibility`.
 */
import type * as Schema from "effect/Schema"
import type { ModelProfile } from "../ModelProfile.ts"
import type { ModelRequest, ModelSettings, ToolDefinition } from "../ModelRequest.ts"
import { wireName } from "./wireName.ts"
import { decode, decoder } from "./chatDecoder.ts"
import { encodeMessages } from "./chatMessages.ts"
import { outputInWords } from "./outputInWords.ts"
import type { Protocol } from "./protocol.ts"
import { allowsStrict } from "./strictSchema.ts"

const encode = (request: ModelRequest, profile: ModelProfile, streaming: boolean): Schema.JsonObject => {
  const { output, tools } = request
  const compatibility = profile.compatibility ?? {}
  const settings = { ...profile.settings, ...request.settings }
  const asked = output === undefined ? "none" : (compatibility.structuredOutput ?? "jsonSchema")
  // `json_object` demands that the messages speak of JSON, and does not know the schema.
  const instructions =
    output === undefined || asked === "jsonSchema"
      ? request.instructions
      : outputInWords(request.instructions, output.schema)
  const isStrict = (schema: Schema.JsonObject) => compatibility.strict === true && allowsStrict(schema)
  const bound = lowest(settings.maxOutputTokens, profile.maxOutputTokens)
  const toTools = (field: string, value: Schema.Json | undefined) =>
    tools.length === 0 ? {} : given(field, value)
  return {
    model: profile.model,
    messages: encodeMessages(request, instructions, profile),
    stream: streaming,
    ...(streaming && compatibility.streamUsage !== false ? { stream_options: { include_usage: true } } : {}),
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
          response_format: asked === "jsonSchema" ? schemaFormat(output, isStrict) : { type: "json_object" }
        }),
    ...given(compatibility.maxTokensField ?? "max_completion_tokens", bound),
    ...given("temperature", settings.temperature),
    ...given("top_p", settings.topP),
    ...given("stop", settings.stop),
    ...given("seed", settings.seed),
    ...given(
      "reasoning_effort",
      compatibility.reasoningEffort === false ? undefined : settings.reasoningEffort
    ),
    ...profile.settings?.extra,
    ...request.settings?.extra
  }
}

const given = (field: string, value: Schema.Json | undefined): Schema.JsonObject =>
  value === undefined ? {} : { [field]: value }

/** A bound that is asked for, no higher than what the model can do. */
const lowest = (asked: number | undefined, possible: number | undefined): number | undefined =>
  asked === undefined || possible === undefined ? asked : Math.min(asked, possible)

const encodeTool = (
  { description, name, parameters }: ToolDefinition,
  strict: boolean
): Schema.JsonObject => ({
  type: "function",
  function: { name, description, parameters, ...(strict ? { strict } : {}) }
})

const encodeChoice = (choice: ModelSettings["toolChoice"]): Schema.Json | undefined =>
  typeof choice === "object" ? { type: "function", function: { name: choice.tool } } : choice

const schemaFormat = (
  { name, schema }: NonNullable<ModelRequest["output"]>,
  isStrict: (schema: Schema.JsonObject) => boolean
): Schema.JsonObject => ({
  type: "json_schema",
  json_schema: { name: wireName(name), schema, ...(isStrict(schema) ? { strict: true } : {}) }
})

/** The `/chat/completions` protocol. */
export const chat: Protocol = { path: "/chat/completions", headers: {}, encode, decoder, decode }
