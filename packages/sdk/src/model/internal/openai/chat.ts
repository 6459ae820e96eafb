/**
 * The protocol of `/chat/completions`, as defined by OpenAI and varied by compatible servers. The decoder detects the differences between
 * servers where a response shows them; the others are set in the profile's `compatibility`.
 */
import type * as Schema from "effect/Schema"
import { defined } from "../../../domain/internal/defined.ts"
import type { Compatibility } from "../../ModelProfile.ts"
import type { ModelRequest } from "../../ModelRequest.ts"
import { instructionsOf } from "../inWords.ts"
import { outputBound } from "../outputBound.ts"
import type { Protocol } from "../protocol.ts"
import { samplingFields } from "../sampling.ts"
import { wireName } from "../wireNames.ts"
import { decode, decoder } from "./chatDecoder.ts"
import { encodeMessages } from "./chatMessages.ts"
import { isStrict, settingFields, toolFields } from "./fields.ts"

const encode: Protocol["encode"] = (request, profile, streaming, room) => {
  const { output } = request
  const compatibility = profile.compatibility ?? {}
  const settings = { ...profile.settings, ...request.settings }
  const asked = output === undefined ? "none" : (compatibility.structuredOutput ?? "jsonSchema")
  // With `json_object`, the messages must mention JSON, and no field contains the schema.
  const instructions = instructionsOf(request, asked === "jsonSchema")
  return {
    model: profile.model,
    messages: encodeMessages(request, instructions, profile),
    stream: streaming,
    ...(streaming && compatibility.streamUsage !== false ? { stream_options: { include_usage: true } } : {}),
    ...toolFields(request, settings, compatibility, {
      tool: ({ description, name, parameters }, strict) => ({
        type: "function",
        function: { name, description, parameters, ...(strict ? { strict } : {}) }
      }),
      choice: (name) => ({ type: "function", function: { name } })
    }),
    ...(output === undefined || asked === "none"
      ? {}
      : {
          response_format:
            asked === "jsonSchema" ? schemaFormat(output, compatibility) : { type: "json_object" }
        }),
    ...defined({
      [compatibility.maxTokensField ?? "max_completion_tokens"]: outputBound(
        settings.maxOutputTokens,
        profile,
        room
      ),
      stop: settings.stop,
      seed: settings.seed,
      reasoning_effort: compatibility.reasoningEffort === false ? undefined : settings.reasoningEffort
    }),
    ...samplingFields(profile, settings),
    ...profile.settings?.extra,
    ...request.settings?.extra
  }
}

const schemaFormat = (
  { name, schema }: NonNullable<ModelRequest["output"]>,
  compatibility: Compatibility
): Schema.JsonObject => ({
  type: "json_schema",
  json_schema: { name: wireName(name), schema, ...(isStrict(schema, compatibility) ? { strict: true } : {}) }
})

/** The `/chat/completions` protocol. */
export const chat: Protocol = {
  path: "/chat/completions",
  headers: {},
  encode,
  settingFields: {
    ...settingFields,
    maxOutputTokens: ["max_completion_tokens", "max_tokens"],
    reasoningEffort: ["reasoning_effort"]
  },
  decoder,
  decode
}
