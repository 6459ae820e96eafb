/**
 * Encodes the history of a run as the messages of `/chat/completions`.
 *
 * A tool's result can only be text, so the files of all results of a turn follow in one user message. Reasoning of another provider is
 * omitted. A text file is sent as text. A file for which the protocol has no place, or that is stored at another provider, is replaced by
 * its name, with its URL if it has one.
 */
import type * as Schema from "effect/Schema"
import type { AssistantMessage, FilePart, ToolMessage, UserPart } from "../../../domain/Message.ts"
import type { ModelProfile } from "../../ModelProfile.ts"
import type { ModelRequest } from "../../ModelRequest.ts"
import { argumentsText, fieldsOf } from "../fields.ts"
import { fileInWords, unavailableFile, textOfFile, titleOf } from "../inWords.ts"
import { providerOf } from "../protocol.ts"
import { wireIds, wireName } from "../wireNames.ts"
import { extraOf } from "./chatCalls.ts"
import { replayReasoning } from "./chatReasoning.ts"

/** Returns the messages of a request, the instructions first. */
export const encodeMessages = (
  { messages }: ModelRequest,
  instructions: string,
  profile: ModelProfile
): ReadonlyArray<Schema.JsonObject> => {
  const provider = providerOf(profile)
  const ids = wireIds(messages, {
    letters: /^[a-zA-Z0-9_.:-]+$/,
    maxLength: 40,
    length: profile.compatibility?.callIdLength
  })
  const out: Array<Schema.JsonObject> = []
  const role = profile.compatibility?.systemRole ?? "system"
  // With the role `user`, the instructions are part of the first user message: chat templates without a system role require
  // alternating roles.
  let before = role === "user" && messages[0]?.role === "user" ? instructions : ""
  if (instructions !== "" && before === "") out.push({ role, content: instructions })
  let files: Array<Schema.JsonObject> = []
  const pushFiles = () => {
    if (files.length > 0) out.push({ role: "user", content: files })
    files = []
  }
  for (const message of messages) {
    if (message.role !== "tool") pushFiles()
    switch (message.role) {
      case "user":
        out.push({ role: "user", content: userContent(message.content, before, provider) })
        before = ""
        break
      case "assistant": {
        const encoded = assistantMessage(message, ids, profile)
        if (encoded !== undefined) out.push(encoded)
        break
      }
      case "tool":
        out.push({ role: "tool", tool_call_id: idOf(ids, message), content: resultText(message, provider) })
        files.push(...resultFiles(message, provider))
    }
  }
  pushFiles()
  return out
}

type Ids = ReturnType<typeof wireIds>

const idOf = (ids: Ids, { callId }: { readonly callId: ToolMessage["callId"] }): string =>
  ids.get(callId) ?? callId

/** Encodes text alone as a string, which every server accepts, and content with files as a list of parts. */
const userContent = (content: ReadonlyArray<UserPart>, before: string, provider: string): Schema.Json => {
  const parts = content.map((part) => (part._tag === "text" ? textPart(part.text) : filePart(part, provider)))
  if (before !== "") parts.unshift(textPart(before))
  return parts.every((part) => part.type === "text")
    ? parts.map((part) => part.text as string).join("\n\n")
    : parts
}

const assistantMessage = (
  { content }: AssistantMessage,
  ids: Ids,
  profile: ModelProfile
): Schema.JsonObject | undefined => {
  const provider = providerOf(profile)
  const calls = content.filter((part) => part._tag === "toolCall")
  const own = content.filter((part) => part._tag === "reasoning").filter((part) => part.provider === provider)
  const { fields, thinking } = replayReasoning(own, calls.length > 0, profile.compatibility?.reasoningReplay)
  let text = ""
  for (const part of content) {
    if (part._tag === "text") text += part.text
    else if (part._tag === "file") text += unavailableFile(part)
  }
  if (text === "" && calls.length === 0 && thinking.length === 0 && Object.keys(fields).length === 0) {
    return undefined
  }
  const said = text === "" ? (calls.length > 0 ? null : "") : text
  return {
    role: "assistant",
    content: thinking.length === 0 ? said : text === "" ? thinking : [...thinking, textPart(text)],
    ...fields,
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map((call) => {
            const extra =
              call.provider === provider ? extraOf(fieldsOf(call.payload)?.extra_content) : undefined
            return {
              id: idOf(ids, call),
              type: "function",
              function: { name: wireName(call.name), arguments: argumentsText(call.arguments) },
              ...(extra === undefined ? {} : { extra_content: extra })
            }
          })
        })
  }
}

const resultText = ({ content }: ToolMessage, provider: string): string => {
  const texts: Array<string> = []
  for (const part of content) {
    const encoded = part._tag === "text" ? textPart(part.text) : filePart(part, provider)
    texts.push(
      encoded.type === "text" ? (encoded.text as string) : `[${titleOf(part as FilePart)}: see below]`
    )
  }
  return texts.join("\n\n")
}

const resultFiles = ({ content, name }: ToolMessage, provider: string): ReadonlyArray<Schema.JsonObject> => {
  const files = content
    .filter((part) => part._tag === "file")
    .map((part) => filePart(part, provider))
    .filter((part) => part.type !== "text")
  return files.length === 0 ? [] : [textPart(`Returned by ${name}:`), ...files]
}

const textPart = (text: string): Schema.JsonObject => ({ type: "text", text })

/** Encodes a file as a part of a message. A text file, and one that is not available to the provider, becomes text. */
const filePart = (file: FilePart, provider: string): Schema.JsonObject => {
  const { mediaType, source } = file
  const words = textOfFile(file)
  if (words !== undefined) return textPart(`${titleOf(file)}:\n${words}`)
  if (source._tag === "reference") {
    return source.provider === provider
      ? { type: "file", file: { file_id: source.id } }
      : textPart(unavailableFile(file))
  }
  if (source._tag === "stored") return textPart(unavailableFile(file))
  if (source._tag === "bytes") {
    const audio = audioFormats.get(mediaType)
    if (audio !== undefined) {
      return { type: "input_audio", input_audio: { data: source.base64, format: audio } }
    }
  }
  const url = source._tag === "url" ? source.url : `data:${mediaType};base64,${source.base64}`
  if (mediaType.startsWith("image/")) return { type: "image_url", image_url: { url } }
  // The protocol has no place for another type of file, nor for the address of one.
  return mediaType === "application/pdf" && source._tag === "bytes"
    ? { type: "file", file: { filename: titleOf(file), file_data: url } }
    : textPart(fileInWords(file))
}

const audioFormats: ReadonlyMap<string, string> = new Map([
  ["audio/wav", "wav"],
  ["audio/x-wav", "wav"],
  ["audio/wave", "wav"],
  ["audio/mpeg", "mp3"],
  ["audio/mp3", "mp3"]
])
