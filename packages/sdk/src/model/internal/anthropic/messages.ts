/**
 * The protocol of Anthropic's `/v1/messages`, which other servers support, too. `baseUrl` ends in `/v1`.
 *
 * The protocol requires a limit on the output tokens: the request's, else the profile's, else 8192, which every current model supports.
 * `seed` does not exist and is omitted with a warning. So are `temperature` and `topP` if the model thinks or does not accept them, since
 * the provider refuses them. Structured output uses `output_config.format`. If a schema cannot be expressed that way, the instructions
 * contain it.
 */
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { defined } from "../../../domain/internal/defined.ts"
import type { ModelError } from "../../ModelError.ts"
import type { ModelResponse } from "../../ModelPart.ts"
import type { ModelProfile } from "../../ModelProfile.ts"
import type { ModelRequest, ModelSettings } from "../../ModelRequest.ts"
import { notAnswered, wholeAnswer } from "../decoding.ts"
import { fieldsOf } from "../fields.ts"
import { instructionsOf } from "../inWords.ts"
import { notAnAnswer } from "../modelError.ts"
import { outputBound } from "../outputBound.ts"
import type { Protocol } from "../protocol.ts"
import { samplingFields } from "../sampling.ts"
import { messagesDecoder } from "./messagesDecoder.ts"
import { encodeHistory, ephemeral } from "./messagesHistory.ts"
import { closedSchema } from "./messagesSchema.ts"
import { noThinking, thinkingOf } from "./messagesThinking.ts"

const encode: Protocol["encode"] = (request, profile, streaming, room) => {
  const compatibility = profile.compatibility ?? {}
  const settings = { ...profile.settings, ...request.settings }
  const { maxOutputTokens = profile.maxOutputTokens ?? 8192 } = settings
  const maxTokens = outputBound(maxOutputTokens, profile, room) ?? maxOutputTokens
  const { output } = request
  const schema =
    output === undefined || (compatibility.structuredOutput ?? "jsonSchema") !== "jsonSchema"
      ? undefined
      : closedSchema(output.schema)
  const system = instructionsOf(request, schema !== undefined)
  const marks = compatibility.cacheControl !== false
  const history = encodeHistory(
    request.messages,
    profile,
    marks ? (request.transientMessages ?? 0) : undefined
  )
  const { effort, thinking } =
    compatibility.reasoningEffort === false
      ? noThinking
      : thinkingOf(profile.model, settings, maxTokens, history)
  const thinks = thinking !== undefined && thinking.type !== "disabled"
  const format = schema === undefined ? undefined : { type: "json_schema", schema }
  return {
    model: profile.model,
    max_tokens: maxTokens,
    ...(system === ""
      ? {}
      : { system: marks ? [{ type: "text", text: system, cache_control: ephemeral }] : system }),
    messages: history,
    stream: streaming,
    ...toolsOf(request, history),
    ...(request.tools.length === 0 ? {} : choiceOf(settings, compatibility.parallelToolCalls !== false)),
    ...(effort === undefined && format === undefined ? {} : { output_config: defined({ effort, format }) }),
    ...(thinks ? {} : samplingFields(profile, settings)),
    ...defined({ thinking, stop_sequences: settings.stop }),
    ...profile.settings?.extra,
    ...request.settings?.extra
  }
}

/** The provider refuses a history with calls if the request has no tools. The called tools are then declared, and calling is disabled. */
const toolsOf = ({ tools }: ModelRequest, history: ReadonlyArray<Schema.JsonObject>): Schema.JsonObject => {
  if (tools.length > 0) {
    return {
      tools: tools.map(({ description, name, parameters }) => ({
        name,
        description,
        input_schema: parameters
      }))
    }
  }
  const called = new Set<string>()
  for (const { content } of history) {
    for (const block of content as ReadonlyArray<Schema.JsonObject>) {
      if (block.type === "tool_use") called.add(block.name as string)
    }
  }
  if (called.size === 0) return {}
  return {
    tools: [...called].map((name) => ({
      name,
      description: "Not available any more.",
      input_schema: { type: "object" }
    })),
    tool_choice: { type: "none" }
  }
}

const choiceOf = (settings: ModelSettings, canSwitch: boolean): Schema.JsonObject => {
  const { parallelToolCalls, toolChoice } = settings
  if (toolChoice === "none") return { tool_choice: { type: "none" } }
  const single = canSwitch && parallelToolCalls === false ? { disable_parallel_tool_use: true } : {}
  if (toolChoice === undefined && parallelToolCalls !== false) return {}
  const choice =
    typeof toolChoice === "object"
      ? { type: "tool", name: toolChoice.tool }
      : { type: toolChoice === "required" ? "any" : "auto" }
  return { tool_choice: { ...choice, ...single } }
}

/** Decodes a complete response like a stream that sends each block at once. */
const decode = (body: unknown, profile: ModelProfile): Result.Result<ModelResponse, ModelError> => {
  const message = fieldsOf(body)
  if (message === undefined || !Array.isArray(message.content)) {
    return Result.fail(notAnswered(body, notAMessage))
  }
  const decoder = messagesDecoder(profile)
  return wholeAnswer(decoder, (emit) => decoder.whole(message, emit), notAMessage)
}

const notAMessage = () => notAnAnswer("a message")

/** The `/v1/messages` protocol. */
export const messages: Protocol = {
  path: "/messages",
  headers: { "anthropic-version": "2023-06-01" },
  encode,
  settingFields: {
    toolChoice: ["tool_choice"],
    parallelToolCalls: ["tool_choice.disable_parallel_tool_use"],
    temperature: ["temperature"],
    topP: ["top_p"],
    stop: ["stop_sequences"],
    seed: ["seed"],
    reasoningEffort: ["thinking", "output_config"]
  },
  decoder: messagesDecoder,
  decode
}
