/**
 * Counts the tokens of a request before it is sent.
 *
 * The count is an estimate: providers wrap messages and tools in text of their own, and each model has its own tokenizer. A count starts
 * from the last usage that a provider reported in this process for the same history, instructions and tools, if there is one, and estimates
 * only what was added since. Keep 10 to 20 % of a context free all the same. Counts of messages are cached, so that a long history is
 * counted once.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type { AssistantPart, FilePart, Message } from "../domain/Message.ts"
import type { ModelUsage } from "../domain/Usage.ts"
import type { ModelRequest, ToolDefinition } from "./ModelRequest.ts"

/** Counts the tokens of a text. `count` must not throw, and must return a number from 0 to the largest safe integer. */
export interface Tokenizer {
  readonly count: (text: string) => number
}

/**
 * Estimates without a vocabulary: one token per three ASCII characters, and one per other UTF-16 unit.
 *
 * **Details**
 *
 * The estimate is about 25 % too high for English prose, about right for code and JSON, up to twice too high for other scripts, and too
 * low for base64 and other noise.
 */
export const estimate: Tokenizer = {
  count: (text) => {
    let ascii = 0
    for (let index = 0; index < text.length; index += 1) if (text.charCodeAt(index) < 128) ascii += 1
    return Math.ceil(ascii / 3) + text.length - ascii
  }
}

/**
 * The tokenizer that a runtime and the model clients use. A runtime reads it when it is created, and a client at each request. Default:
 * {@link estimate}. `@fermata/node` provides `GptTokenizer`.
 *
 * @category services
 * @since 0.1.0
 */
export const Tokenizer = Context.Reference<Tokenizer>("@fermata/sdk/model/Tokenizer", {
  defaultValue: () => estimate
})

/** The fields of a request that are counted. */
export type Counted = Pick<ModelRequest, "instructions" | "messages" | "tools">

/** The input tokens that a provider reported, and the request that it counted. */
interface ProviderCount extends Pick<Counted, "instructions" | "tools"> {
  readonly first: Message | undefined
  readonly count: number
  readonly inputTokens: number
}

/** Keyed by the last message of the counted request. */
const providerCounts = new WeakMap<Message, ProviderCount>()

/**
 * Keeps the input tokens that a provider reported for a request, in the memory of the process. {@link countRequest} starts from this number
 * for a request that begins with the same messages and has the same instructions and tools. Messages and lists of tools are the same if
 * they are the same objects.
 */
export const remember = (request: Counted, { inputTokens }: ModelUsage): void => {
  const last = request.messages.at(-1)
  if (last === undefined || inputTokens <= 0) return
  const { instructions, messages, tools } = request
  // The request itself is not stored: it would keep the list of all messages in memory.
  providerCounts.set(last, { first: messages[0], count: messages.length, instructions, tools, inputTokens })
}

/**
 * Counts the tokens of a request: what a provider reported for its beginning, and an estimate of the rest. Throws a `TypeError` if the
 * tokenizer does not return a number of tokens.
 */
export const countRequest = (tokenizer: Tokenizer, request: Counted): number => {
  const { instructions, messages, tools } = request
  for (let index = messages.length - 1; index >= 0; index -= 1) {
    const before = providerCounts.get(messages[index]!)
    if (before !== undefined && isBeginning(before, request, index)) {
      return before.inputTokens + countMessages(tokenizer, messages, index + 1)
    }
  }
  return (
    countText(tokenizer, instructions) + countTools(tokenizer, tools) + countMessages(tokenizer, messages)
  )
}

/** Messages are immutable: the same first and last message, and the same number, mean the same beginning. */
const isBeginning = (before: ProviderCount, request: Counted, last: number): boolean =>
  before.count === last + 1 &&
  before.first === request.messages[0] &&
  before.tools === request.tools &&
  before.instructions === request.instructions

/** Counts the tokens of messages, starting at index `from`. */
export const countMessages = (tokenizer: Tokenizer, messages: ReadonlyArray<Message>, from = 0): number => {
  let tokens = 0
  for (let index = from; index < messages.length; index += 1)
    tokens += countMessage(tokenizer, messages[index]!)
  return tokens
}

/** The tokens that a provider adds to each message: its role, its beginning and its end. */
const tokensAroundMessage = 4

/** Tokens of a file of unknown kind, and of any file whose bytes are not known here. */
const tokensOfFile = 1500

/**
 * Tokens of files that are sent as such, never of their base64 text. Providers scale an image down to at most about this many; a page of a
 * document is taken as text and as an image, and most pages have 50 to 100 KB; sound and film are counted by the second.
 */
const tokensOfMedia = (mediaType: string, bytes: number): number => {
  const [kind] = mediaType.split("/")
  if (mediaType === "application/pdf") return 2000 * Math.min(100, Math.ceil(bytes / 60_000))
  if (kind === "audio") return Math.max(100, Math.ceil(bytes / 500))
  if (kind === "video") return Math.max(300, Math.ceil(bytes / 1000))
  return tokensOfFile
}

/** Counts of immutable values, by tokenizer. */
const countCache = new WeakMap<Tokenizer, WeakMap<object, number>>()

const cachedCount = (tokenizer: Tokenizer, value: object, count: () => number): number => {
  let counts = countCache.get(tokenizer)
  if (counts === undefined) countCache.set(tokenizer, (counts = new WeakMap()))
  let tokens = counts.get(value)
  if (tokens === undefined) counts.set(value, (tokens = count()))
  return tokens
}

/** Counts the tokens of a text. Throws if a tokenizer, perhaps written without types, did not return a number. */
export const countText = (tokenizer: Tokenizer, text: string): number => {
  const count: unknown = tokenizer.count(text)
  if (typeof count === "number" && count >= 0 && count <= Number.MAX_SAFE_INTEGER) return count
  throw new TypeError("the tokenizer has not returned a number of tokens")
}

/** Counts the tokens of a message. */
export const countMessage = (tokenizer: Tokenizer, message: Message): number =>
  cachedCount(tokenizer, message, () => {
    let tokens = tokensAroundMessage
    for (const part of message.content) tokens += countPart(tokenizer, part)
    return tokens
  })

const countPart = (tokenizer: Tokenizer, part: AssistantPart): number => {
  switch (part._tag) {
    case "text":
    case "reasoning":
      return countText(tokenizer, part.text)
    case "toolCall":
      return tokensAroundMessage + countText(tokenizer, part.name) + countText(tokenizer, part.arguments)
    case "file":
      return countFile(part)
  }
}

/** Text files are sent as text: three bytes, which are four base64 characters, are about one token. */
const countFile = ({ mediaType, source }: FilePart): number => {
  const bytes =
    source._tag === "stored"
      ? source.bytes
      : source._tag === "bytes"
        ? Math.floor((source.base64.length * 3) / 4)
        : undefined
  if (bytes === undefined) return tokensOfFile
  const isText = mediaType.startsWith("text/") || mediaType === "application/json"
  return isText ? Math.ceil(bytes / 3) : tokensOfMedia(mediaType, bytes)
}

/** Counts the tokens of the definitions of tools. */
export const countTools = (tokenizer: Tokenizer, tools: ReadonlyArray<ToolDefinition>): number =>
  cachedCount(tokenizer, tools, () => {
    let tokens = 0
    for (const { description, name, parameters } of tools) {
      tokens += tokensAroundMessage + countText(tokenizer, name) + countText(tokenizer, description)
      tokens += countText(tokenizer, JSON.stringify(parameters))
    }
    return tokens
  })
