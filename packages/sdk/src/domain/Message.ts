/**
 * The messages of a session and their parts, as plain JSON values.
 *
 * The arguments of a tool call are kept as the text that the model wrote, until an approval with other arguments replaces it. `payload`
 * holds data that a provider requires back verbatim, such as signatures, encrypted reasoning and item ids. Bytes are base64 text, so a
 * message is JSON without any encoding; in a stored run, they are in the store and the message refers to them.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { BlobRef } from "./Blob.ts"
import { Timestamp, ToolCallId } from "./Id.ts"

/** Opaque data that must be sent back with a part of a response, and the only provider that may receive it. */
const replay = {
  provider: Schema.optionalKey(Schema.String),
  payload: Schema.optionalKey(Schema.Json)
}

/** Text. In a response, `payload` may hold the provider's own item, which is sent back to the same provider only. */
export const TextPart = Schema.TaggedStruct("text", {
  text: Schema.String,
  /**
   * The whole text as UTF-8, if `text` is the shortened result of a call of a stored run. With a `mediaType`, the file that was left out of
   * the result, and in whose place `text` stands.
   */
  whole: Schema.optionalKey(
    Schema.Struct({
      ...BlobRef.fields,
      mediaType: Schema.optionalKey(Schema.String),
      name: Schema.optionalKey(Schema.String)
    })
  ),
  ...replay
})
export type TextPart = typeof TextPart.Type

/**
 * A file or image, given as bytes, as a URL, as a provider's reference, or by reference to bytes in the run's store. The runtime replaces
 * the last of these by the bytes for a model call. The clients for the protocols of OpenAI and Anthropic replace one that the protocol does
 * not take by text: the content of a text file, otherwise its name or media type, with its URL if it has one.
 */
export const FilePart = Schema.TaggedStruct("file", {
  /** IANA media type, such as `image/png`. */
  mediaType: Schema.String,
  source: Schema.Union([
    Schema.TaggedStruct("bytes", { base64: Schema.String }),
    Schema.TaggedStruct("url", { url: Schema.String }),
    Schema.TaggedStruct("reference", { id: Schema.String, provider: Schema.String }),
    Schema.TaggedStruct("stored", BlobRef.fields)
  ]),
  name: Schema.optionalKey(Schema.String)
})
export type FilePart = typeof FilePart.Type

/** The model's reasoning. `payload` holds the provider's own item, which is sent back to the same provider only. */
export const ReasoningPart = Schema.TaggedStruct("reasoning", { text: Schema.String, ...replay })
export type ReasoningPart = typeof ReasoningPart.Type

/** A tool call in a response. */
export const ToolCallPart = Schema.TaggedStruct("toolCall", {
  callId: ToolCallId,
  /** The provider's id; not unique within a run. */
  providerCallId: Schema.String,
  name: Schema.String,
  /** JSON text as the model wrote it; after an approval with other arguments, the approved ones. */
  arguments: Schema.String,
  ...replay
})
export type ToolCallPart = typeof ToolCallPart.Type

/** A part of a user's message or of a tool's result. */
export const UserPart = Schema.Union([TextPart, FilePart])
export type UserPart = typeof UserPart.Type

/** A part of a model's response. */
export const AssistantPart = Schema.Union([TextPart, ReasoningPart, ToolCallPart, FilePart])
export type AssistantPart = typeof AssistantPart.Type

/**
 * How a tool call ended. `completed`: its body, an answer, the end of a wait or another system gave the result; so did a decision `supply`
 * on a timer or an external call. `supplied`: a decision on an approval or on a call in doubt gave it. `failed` and `denied`: the result
 * says why. `cancelled`: the call was abandoned, or its result is a placeholder.
 */
export const ToolOutcome = Schema.Literals(["completed", "failed", "denied", "cancelled", "supplied"])
export type ToolOutcome = typeof ToolOutcome.Type

const fields = {
  /** Position in the session, from 0, without gaps. */
  sequence: Schema.Natural,
  at: Timestamp
}

/** A message with the role `user`: from the caller or, with `origin: "runtime"`, from Fermata itself, such as a correction. */
export const UserMessage = Schema.Struct({
  role: Schema.tag("user"),
  ...fields,
  content: Schema.Array(UserPart),
  origin: Schema.optionalKey(Schema.Literals(["user", "runtime"]))
})
export type UserMessage = typeof UserMessage.Type

/** A model's response. */
export const AssistantMessage = Schema.Struct({
  role: Schema.tag("assistant"),
  ...fields,
  content: Schema.Array(AssistantPart),
  /** The name of the model profile that gave the response. Absent if the client does not report it. */
  profile: Schema.optionalKey(Schema.String),
  /** Set if the run was cancelled before the response was complete. A message from the runtime, which says so, follows. */
  cut: Schema.optionalKey(Schema.Boolean)
})
export type AssistantMessage = typeof AssistantMessage.Type

/** The result of a tool call. Each call has exactly one. */
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

/** Makes a text part. */
export const text = (value: string): TextPart => ({ _tag: "text", text: value })

/** The text parts of a message, joined without a separator. */
export const textOf = (content: ReadonlyArray<AssistantPart | UserPart>): string => {
  let out = ""
  for (const part of content) if (part._tag === "text") out += part.text
  return out
}

/** Whether a message is no part of a step with calls, so that it can be shown alone. */
export const standsAlone = (message: Message | undefined): boolean =>
  message !== undefined &&
  message.role !== "tool" &&
  (message.role === "user" || message.content.every((part) => part._tag !== "toolCall"))
