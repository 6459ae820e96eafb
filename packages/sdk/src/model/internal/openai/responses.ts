/**
 * The protocol of `/responses`, as defined by OpenAI and supported by DeepSeek, LM Studio, OpenRouter, vLLM and others.
 *
 * By default the provider stores nothing (`store: false`): every request sends the items of earlier turns back, with encrypted reasoning.
 * `stop` and `seed` do not exist and are omitted with a warning. Reasoning summaries are not requested, since they are not available to
 * all accounts; `extra: { reasoning: { effort, summary } }` requests them.
 */
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { defined } from "../../../domain/internal/defined.ts"
import type { ModelError } from "../../ModelError.ts"
import type { ModelResponse } from "../../ModelPart.ts"
import type { Compatibility, ModelProfile } from "../../ModelProfile.ts"
import type { ModelRequest } from "../../ModelRequest.ts"
import { notAnswered, wholeAnswer } from "../decoding.ts"
import { fieldsOf } from "../fields.ts"
import { instructionsOf } from "../inWords.ts"
import { notAnAnswer } from "../modelError.ts"
import { outputBound } from "../outputBound.ts"
import { type Protocol, providerOf } from "../protocol.ts"
import { samplingFields } from "../sampling.ts"
import { wireName } from "../wireNames.ts"
import { isStrict, settingFields, toolFields } from "./fields.ts"
import { responsesDecoder } from "./responsesDecoder.ts"
import { encodeInput } from "./responsesInput.ts"

const encode: Protocol["encode"] = (request, profile, streaming, room) => {
  const { messages, output } = request
  const compatibility = profile.compatibility ?? {}
  const settings = { ...profile.settings, ...request.settings }
  const store = compatibility.store === true
  const asked = compatibility.structuredOutput ?? "jsonSchema"
  const given = instructionsOf(request, asked === "jsonSchema")
  const instructions = given.trim() === "" ? (compatibility.defaultInstructions ?? given) : given
  const effort = compatibility.reasoningEffort === false ? undefined : settings.reasoningEffort
  return {
    model: profile.model,
    ...(instructions === "" ? {} : { instructions }),
    input: encodeInput(messages, profile),
    stream: streaming,
    store,
    ...(store || !mayReason(profile.model) ? {} : { include: ["reasoning.encrypted_content"] }),
    ...toolFields(request, settings, compatibility, {
      // `strict` is always sent: OpenAI's default is `true`.
      tool: ({ description, name, parameters }, strict) => ({
        type: "function",
        name,
        description,
        parameters,
        strict
      }),
      choice: (name) => ({ type: "function", name })
    }),
    ...(output === undefined || asked === "none"
      ? {}
      : {
          text: {
            format: asked === "jsonSchema" ? schemaFormat(output, compatibility) : { type: "json_object" }
          }
        }),
    ...defined({
      max_output_tokens:
        compatibility.maxOutputTokens === false
          ? undefined
          : outputBound(settings.maxOutputTokens, profile, room),
      reasoning: effort === undefined ? undefined : { effort }
    }),
    ...samplingFields(profile, settings),
    ...profile.settings?.extra,
    ...request.settings?.extra
  }
}

/** OpenAI refuses a request to include reasoning for a model without it. */
const mayReason = (model: string): boolean =>
  !/(?:^|[/.])(?:chatgpt|gpt-3|gpt-4|gpt-5(?:\.\d+)?-chat)/.test(model)

const schemaFormat = (
  { name, schema }: NonNullable<ModelRequest["output"]>,
  compatibility: Compatibility
): Schema.JsonObject => ({
  type: "json_schema",
  name: wireName(name),
  schema,
  strict: isStrict(schema, compatibility)
})

/** Decodes a complete response like the last event of a stream. */
const decode = (body: unknown, profile: ModelProfile): Result.Result<ModelResponse, ModelError> => {
  const response = fieldsOf(body)
  if (response === undefined || (!Array.isArray(response.output) && typeof response.status !== "string")) {
    return Result.fail(notAnswered(body, notAResponse))
  }
  const decoder = responsesDecoder(providerOf(profile))
  return wholeAnswer(decoder, () => decoder.last(response), notAResponse)
}

const notAResponse = () => notAnAnswer("a response object")

/** The `/responses` protocol. */
export const responses: Protocol = {
  path: "/responses",
  headers: {},
  encode,
  settingFields: {
    ...settingFields,
    maxOutputTokens: ["max_output_tokens"],
    reasoningEffort: ["reasoning"]
  },
  decoder: (profile) => responsesDecoder(providerOf(profile)),
  decode
}
