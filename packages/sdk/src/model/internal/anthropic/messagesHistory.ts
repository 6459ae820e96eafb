/**
 * Encodes the history of a run as the messages of `/v1/messages`.
 *
 * The roles alternate: consecutive user messages and tool results become one message, the results first. Thinking and the provider's other
 * blocks are sent back unchanged, at their place, and only to the provider that wrote them. Two things are omitted, since the provider
 * refuses them: blank texts, and calls of the provider's own tools that have no result, once a user message follows.
 */
import type * as Schema from "effect/Schema"
import type { ToolCallId } from "../../../domain/Id.ts"
import type { AssistantMessage, FilePart, Message, ToolMessage, UserPart } from "../../../domain/Message.ts"
import type { ModelProfile } from "../../ModelProfile.ts"
import { argumentsValue, fieldsOf } from "../fields.ts"
import { fileInWords, unavailableFile, textOfFile, titleOf } from "../inWords.ts"
import { providerOf } from "../protocol.ts"
import { wireIds, wireName } from "../wireNames.ts"

type Ids = ReadonlyMap<ToolCallId, string>

/** Marks the end of the part that the provider is asked to cache; see "Prompt caching" in Anthropic's documentation. */
export const ephemeral = { type: "ephemeral" } as const

/**
 * Returns the messages of a request, each with a list of blocks. `transient` is the number of messages at the end that the next request does
 * not repeat: of those before them, the last blocks of the last two messages with the role `user`, which tool results have too, are marked for
 * the provider's cache. Without `transient`, none is.
 */
export const encodeHistory = (
  messages: ReadonlyArray<Message>,
  profile: ModelProfile,
  transient?: number
): ReadonlyArray<Schema.JsonObject> => {
  const provider = providerOf(profile)
  const ids = wireIds(messages, { letters: /^[a-zA-Z0-9_-]+$/, maxLength: 64 })
  const out: Array<{ readonly role: "user" | "assistant"; readonly content: Array<Schema.JsonObject> }> = []
  const push = (role: "user" | "assistant", blocks: ReadonlyArray<Schema.JsonObject>) => {
    if (blocks.length === 0) return
    const last = out.at(-1)
    if (last?.role === role) last.content.push(...blocks)
    else out.push({ role, content: [...blocks] })
  }
  const ended = endedTools(messages)
  const last = messages.findLast(({ role }) => role === "assistant")
  // The user's messages that are not repeated do not show whether the turn goes on.
  const lastPlace = messages.length - 1 - (transient ?? 0)
  const goesOn = messages[lastPlace]?.role !== "user" || messages.at(-1)?.role === "assistant"
  for (const [place, message] of messages.entries()) {
    switch (message.role) {
      case "user":
        push("user", blocksOf(message.content, provider))
        break
      case "assistant":
        push(
          "assistant",
          answerBlocks(message, ids, provider).filter(
            (block) => !isProviderTool(block) || ended.has(block.id) || (goesOn && message === last)
          )
        )
        break
      case "tool":
        push("user", [resultBlock(message, ids, provider)])
    }
    if (transient !== undefined && place === lastPlace) markForCache(out)
  }
  const end = out.at(-1)
  if (end?.role === "assistant") end.content.push(...withoutLastBlanks(end.content.splice(-1)))
  // The first message must be a user's. The context policy may have omitted messages up to an assistant message.
  if (out[0]?.role === "assistant") {
    out.unshift({ role: "user", content: [textBlock("[Earlier messages are left out.]")] })
  }
  return out
}

/** Marks the last block of the last two messages of the user. The earlier one is where the request of the turn before ended. */
const markForCache = (
  out: ReadonlyArray<{ readonly role: "user" | "assistant"; readonly content: Array<Schema.JsonObject> }>
): void => {
  const last = out.findLastIndex(({ role }) => role === "user")
  const before = out.slice(0, Math.max(0, last)).findLastIndex(({ role }) => role === "user")
  for (const place of [before, last]) {
    const blocks = out[place]?.content
    const block = blocks?.at(-1)
    if (blocks !== undefined && block !== undefined)
      blocks[blocks.length - 1] = { ...block, cache_control: ephemeral }
  }
}

/** The ids of the provider's tool calls that have a result. After a later user message, the provider refuses calls without one. */
const endedTools = (messages: ReadonlyArray<Message>): ReadonlySet<unknown> => {
  const ids = new Set<unknown>()
  for (const { content } of messages) {
    for (const part of content) {
      if (part._tag === "reasoning") ids.add(fieldsOf(part.payload)?.tool_use_id)
    }
  }
  ids.delete(undefined)
  return ids
}

const isProviderTool = ({ type }: Schema.JsonObject): boolean =>
  type === "server_tool_use" || type === "mcp_tool_use"

const answerBlocks = (
  { content }: AssistantMessage,
  ids: Ids,
  provider: string
): ReadonlyArray<Schema.JsonObject> => {
  const blocks: Array<Schema.JsonObject> = []
  for (const part of content) {
    const payload =
      part._tag !== "file" && part.provider === provider
        ? (fieldsOf(part.payload) as Schema.JsonObject)
        : undefined
    switch (part._tag) {
      case "text":
        if (isBlank(part.text)) break
        blocks.push({
          ...textBlock(part.text),
          ...(Array.isArray(payload?.citations) ? { citations: payload.citations } : {})
        })
        break
      case "reasoning":
        if (payload === undefined) break
        blocks.push(payload.type === "thinking" ? { ...payload, thinking: part.text } : payload)
        break
      case "toolCall":
        blocks.push({
          ...payload,
          type: "tool_use",
          id: ids.get(part.callId) ?? part.callId,
          name: wireName(part.name),
          input: argumentsValue(part.arguments)
        })
        break
      case "file":
        blocks.push(textBlock(unavailableFile(part)))
    }
  }
  return blocks
}

const resultBlock = (message: ToolMessage, ids: Ids, provider: string): Schema.JsonObject => {
  const content = blocksOf(message.content, provider)
  const failed = message.outcome !== "completed" && message.outcome !== "supplied"
  return {
    type: "tool_result",
    tool_use_id: ids.get(message.callId) ?? message.callId,
    ...(content.length === 0 ? {} : { content }),
    ...(failed ? { is_error: true } : {})
  }
}

const blocksOf = (content: ReadonlyArray<UserPart>, provider: string): ReadonlyArray<Schema.JsonObject> => {
  const blocks: Array<Schema.JsonObject> = []
  for (const part of content) {
    if (part._tag === "file") blocks.push(fileBlock(part, provider))
    else if (!isBlank(part.text)) blocks.push(textBlock(part.text))
  }
  return blocks
}

/** The provider refuses trailing white space in a last message of the assistant. */
const withoutLastBlanks = (blocks: ReadonlyArray<Schema.JsonObject>): ReadonlyArray<Schema.JsonObject> =>
  blocks.map((block) => (typeof block.text === "string" ? { ...block, text: block.text.trimEnd() } : block))

const isBlank = (text: string): boolean => text.trim() === ""

const textBlock = (text: string): Schema.JsonObject => ({ type: "text", text })

/** Encodes images and documents as such, and any other file as text. */
const fileBlock = (file: FilePart, provider: string): Schema.JsonObject => {
  const { mediaType, source } = file
  const type = mediaType.startsWith("image/")
    ? "image"
    : mediaType === "application/pdf"
      ? "document"
      : undefined
  const title = type === "document" && file.name !== undefined ? { title: file.name } : {}
  switch (source._tag) {
    case "reference":
      return source.provider === provider
        ? { type: type ?? "document", source: { type: "file", file_id: source.id }, ...title }
        : textBlock(unavailableFile(file))
    case "url":
      return type === undefined
        ? textBlock(fileInWords(file))
        : { type, source: { type: "url", url: source.url }, ...title }
    case "stored":
      return textBlock(unavailableFile(file))
    case "bytes": {
      if (type !== undefined) {
        return { type, source: { type: "base64", media_type: mediaType, data: source.base64 }, ...title }
      }
      const text = textOfFile(file)
      return textBlock(text === undefined ? unavailableFile(file) : `${titleOf(file)}:\n${text}`)
    }
  }
}
