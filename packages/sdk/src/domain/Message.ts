/**
 * The messages of a session and their parts, as plain JSON values.
 *
 * Arguments of tool calls are kept as the text that the model wrote; what a provider needs back verbatim (signatures,
 * encrypted reasoning, item ids) travels in `payload`, untouched. Bytes are base64 text, so that a message is JSON as it
 * stands and encoding one costs nothing.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Timestamp, ToolCallId } from "./Id.ts"

/** What a provider wants back with a part of its own answer, and who may be sent it. */
const replay = {
  provider: Schema.optionalKey(Schema.String),
  payload: Schema.optionalKey(Schema.Json)
}

/** Text. In an answer it may carry the provider's own item, which is sent back to the same provider only. */
export const TextPart = Schema.TaggedStruct("text", { text: Schema.String, ...replay })
export type TextPart = typeof TextPart.Type

/** A file or image: by bytes, by URL, or by a provider's reference. */
export const FilePart = Schema.TaggedStruct("file", {
  /** IANA media type, such as `image/png`. */
  mediaType: Schema.String,
  source: Schema.Union([
    Schema.TaggedStruct("bytes", { base64: Schema.String }),
    Schema.TaggedStruct("url", { url: Schema.String }),
    Schema.TaggedStruct("reference", { id: Schema.String, provider: Schema.String })
  ]),
  name: Schema.optionalKey(Schema.String)
})
export type FilePart = typeof FilePart.Type

/** The model's reasoning. `payload` is the provider's own item and is sent back to the same provider only. */
export const ReasoningPart = Schema.TaggedStruct("reasoning", { text: Schema.String, ...replay })
export type ReasoningPart = typeof ReasoningPart.Type

/** A call that the model asked for. */
export const ToolCallPart = Schema.TaggedStruct("toolCall", {
  callId: ToolCallId,
  /** The provider's id. Not unique over a run. */
  providerCallId: Schema.String,
  name: Schema.String,
  /** JSON text as the model wrote it; after an edited approval, the arguments that ran. */
  arguments: Schema.String,
  ...replay
})
export type ToolCallPart = typeof ToolCallPart.Type

/** A part of what a user or a tool says. */
export const UserPart = Schema.Union([TextPart, FilePart])
export type UserPart = typeof UserPart.Type

/** A part of a model's answer. */
export const AssistantPart = Schema.Union([TextPart, ReasoningPart, ToolCallPart, FilePart])
export type AssistantPart = typeof AssistantPart.Type

/** How a tool call ended. */
export const ToolOutcome = Schema.Literals(["completed", "failed", "denied", "cancelled", "supplied"])
export type ToolOutcome = typeof ToolOutcome.Type

const fields = {
  /** Place in the session, gapless, from 0. */
  sequence: Schema.Natural,
  at: Timestamp
}

/** What a person (or `runtime`, when it corrects the model) said. */
export const UserMessage = Schema.Struct({
  role: Schema.tag("user"),
  ...fields,
  content: Schema.Array(UserPart),
  origin: Schema.optionalKey(Schema.Literals(["user", "runtime"]))
})
export type UserMessage = typeof UserMessage.Type

/** What a model answered. */
export const AssistantMessage = Schema.Struct({
  role: Schema.tag("assistant"),
  ...fields,
  content: Schema.Array(AssistantPart),
  /** The name of the model profile that answered. */
  profile: Schema.optionalKey(Schema.String)
})
export type AssistantMessage = typeof AssistantMessage.Type

/** The one result of one tool call. */
export const ToolMessage = Schema.Struct({
  role: Schema.tag("tool"),
  ...fields,
  callId: ToolCallId,
  providerCallId: Schema.String,
  name: Schema.String,
  outcome: ToolOutcome,
  content: Schema.Array(UserPart)
})
export type ToolMessage = typeof ToolMessage.Type

/** A message of a session. */
export const Message = Schema.Union([UserMessage, AssistantMessage, ToolMessage])
export type Message = typeof Message.Type

/** A text part. */
export const text = (value: string): TextPart => ({ _tag: "text", text: value })

/** The text of a message: its text parts, joined. */
export const textOf = (content: ReadonlyArray<AssistantPart | UserPart>): string => {
  let out = ""
  for (const part of content) if (part._tag === "text") out += part.text
  return out
}
