/**
 * Encodes the history of a run as the input items of `/responses`.
 *
 * The items of an assistant message belong together: OpenAI refuses reasoning without the item that followed it. The items are sent back
 * in their original order, with reasoning, only to the provider that wrote them, and only if all of them have their payload and none
 * requires a response of the client. Otherwise the message is sent as plain text and calls, the texts first. Item ids are sent only if
 * the provider stores items, or if `compatibility.itemIds` is set.
 */
import type * as Schema from "effect/Schema"
import type { ToolCallId } from "../../../domain/Id.ts"
import type { AssistantMessage, FilePart, Message, UserPart } from "../../../domain/Message.ts"
import type { ModelProfile } from "../../ModelProfile.ts"
import { argumentsText, fieldsOf } from "../fields.ts"
import { fileInWords, unavailableFile, textOfFile, titleOf } from "../inWords.ts"
import { providerOf } from "../protocol.ts"
import { wireIds, wireName } from "../wireNames.ts"

type Ids = ReadonlyMap<ToolCallId, string>

/** Returns the input items of a request. */
export const encodeInput = (
  messages: ReadonlyArray<Message>,
  profile: ModelProfile
): ReadonlyArray<Schema.JsonObject> => {
  const provider = providerOf(profile)
  const ids = wireIds(messages, { letters: /^[a-zA-Z0-9_.:-]+$/, maxLength: 64 })
  const items: Array<Schema.JsonObject> = []
  for (const message of messages) {
    switch (message.role) {
      case "user":
        items.push({ role: "user", content: contentOf(message.content, provider) })
        break
      case "assistant":
        items.push(...answerItems(message, ids, profile, provider))
        break
      case "tool":
        items.push({
          type: "function_call_output",
          call_id: ids.get(message.callId) ?? message.callId,
          output: contentOf(message.content, provider)
        })
    }
  }
  return items
}

/** Encodes text alone as a string, which every server accepts, and content with files as a list of parts. */
const contentOf = (content: ReadonlyArray<UserPart>, provider: string): Schema.Json => {
  const parts = content.map((part) => (part._tag === "text" ? textPart(part.text) : filePart(part, provider)))
  return parts.every((part) => part.type === "input_text")
    ? parts.map((part) => part.text as string).join("\n\n")
    : parts
}

const answerItems = (
  { content }: AssistantMessage,
  ids: Ids,
  profile: ModelProfile,
  provider: string
): ReadonlyArray<Schema.JsonObject> => {
  const stored = profile.compatibility?.store === true
  const hasIds = profile.compatibility?.itemIds ?? stored
  const isOwn = (part: AssistantMessage["content"][number]) =>
    part._tag !== "file" && part.provider === provider && fieldsOf(part.payload) !== undefined
  const whole = content.every((part) => isOwn(part) && !waitsForClient(part))
  const items: Array<Schema.JsonObject> = []
  for (const part of content) {
    switch (part._tag) {
      case "text":
        if (part.text !== "")
          items.push(messageItem(part.text, isOwn(part) ? part.payload : {}, hasIds && whole))
        break
      case "toolCall":
        items.push({
          ...(isOwn(part) ? sent(part.payload, hasIds && whole) : {}),
          type: "function_call",
          call_id: ids.get(part.callId) ?? part.callId,
          name: wireName(part.name),
          arguments: argumentsText(part.arguments)
        })
        break
      case "reasoning": {
        if (!whole) break
        const item = sent(part.payload, hasIds)
        if (item.type === "reasoning") {
          // An item that is not stored and has no content is useless to the provider.
          if (stored || item.encrypted_content !== undefined || hasContent(item))
            items.push(reasoningItem(item))
        } else items.push(item)
        break
      }
      case "file":
        items.push(messageItem(unavailableFile(part), {}, false))
    }
  }
  // DeepSeek accepts nothing between calls and their results. Without reasoning the order is free, so texts come first.
  if (!whole) return items.toSorted((a, b) => Number(isCall(a)) - Number(isCall(b)))
  // Reasoning without a following item: the response was cut off there.
  while (items.at(-1)?.type === "reasoning") items.pop()
  return items
}

const isCall = (item: Schema.JsonObject): boolean => item.type === "function_call"

/** Items that require a response of the client that a run cannot give. */
const waitsForClient = (part: AssistantMessage["content"][number]): boolean =>
  part._tag === "reasoning" && clientItems.has(fieldsOf(part.payload)?.type)

const clientItems: ReadonlySet<unknown> = new Set([
  "custom_tool_call",
  "mcp_approval_request",
  "computer_call",
  "local_shell_call",
  "shell_call",
  "apply_patch_call"
])

const messageItem = (text: string, payload: Schema.Json | undefined, hasId: boolean): Schema.JsonObject => {
  const { id, phase } = fieldsOf(payload) ?? {}
  const message = { type: "message", role: "assistant", ...(typeof phase === "string" ? { phase } : {}) }
  // Strict servers require the id, the status and the annotations of an output message, and accept plain text without them.
  return hasId && typeof id === "string"
    ? { ...message, id, status: "completed", content: [{ type: "output_text", text, annotations: [] }] }
    : { ...message, content: text }
}

const reasoningItem = (item: Schema.JsonObject): Schema.JsonObject =>
  Array.isArray(item.summary) ? item : { ...item, summary: [] }

const hasContent = ({ content, summary }: Schema.JsonObject): boolean =>
  (Array.isArray(content) && content.length > 0) || (Array.isArray(summary) && summary.length > 0)

/** An item as it is replayed: without empty fields, and without its id unless `hasId`. */
const sent = (payload: Schema.Json | undefined, hasId: boolean): Schema.JsonObject => {
  const item = fieldsOf(payload) ?? {}
  return Object.fromEntries(
    Object.entries(item as Schema.JsonObject).filter(
      ([key, value]) =>
        value !== null && (hasId || key !== "id") && (key !== "status" || item.type !== "reasoning")
    )
  )
}

/**
 * Media types of `input_file` besides plain text. The provider refuses the whole request for another one. See
 * https://platform.openai.com/docs/guides/pdf-files
 */
const isDocument = (mediaType: string): boolean =>
  /^(?:application\/(?:pdf|rtf|msword|vnd\.ms-(?:excel|powerpoint)|vnd\.openxmlformats-officedocument\..*|vnd\.oasis\.opendocument\..*)|text\/.*)$/.test(
    mediaType
  )

const textPart = (text: string): Schema.JsonObject => ({ type: "input_text", text })

const filePart = (file: FilePart, provider: string): Schema.JsonObject => {
  const { mediaType, source } = file
  const isImage = mediaType.startsWith("image/")
  if (source._tag === "reference") {
    if (source.provider !== provider) return textPart(unavailableFile(file))
    return isImage
      ? { type: "input_image", file_id: source.id, detail: "auto" }
      : { type: "input_file", file_id: source.id }
  }
  if (source._tag === "stored") return textPart(unavailableFile(file))
  const text = textOfFile(file)
  if (text !== undefined) return textPart(`${titleOf(file)}:\n${text}`)
  if (!isImage && !isDocument(mediaType)) return textPart(fileInWords(file))
  const data = source._tag === "url" ? source.url : `data:${mediaType};base64,${source.base64}`
  if (isImage) {
    return { type: "input_image", image_url: data, detail: "auto" }
  }
  return source._tag === "url"
    ? { type: "input_file", file_url: data }
    : { type: "input_file", filename: titleOf(file), file_data: data }
}
