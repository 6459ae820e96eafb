/**
 * How many tokens a request will take, before a provider says so.
 *
 * Only a provider knows for sure: it wraps messages and tools in text of its own, and every model cuts text in its own way. A
 * count is therefore taken from the last usage that a provider reported, where there is one, and estimates only what was added
 * since; keep 10 to 20 % of a context free all the same. Counts of messages are kept, so that a long history is counted once.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type { AssistantPart, FilePart, Message } from "../domain/Message.ts"
import type { ModelUsage } from "../domain/Usage.ts"
import type { ModelRequest, ToolDefinition } from "./ModelRequest.ts"

/** Counts the tokens of a text. It never fails, whatever the text. */
export interface Tokenizer {
  readonly count: (text: string) => number
}

/**
 * Counts without a table: one token for three ASCII characters, and one for every other UTF-16 unit.
 *
 * That is a quarter too many for English prose, about right for code and JSON, up to twice too many for other scripts, and too few
 * for base64 and other noise.
 */
export const estimate: Tokenizer = {
  count: (text) => {
    let ascii = 0
    for (let index = 0; index < text.length; index += 1) if (text.charCodeAt(index) < 128) ascii += 1
    return Math.ceil(ascii / 3) + text.length - ascii
  }
}

/**
 * The tokenizer in force; {@link estimate} unless another is provided, such as `GptTokenizer` of `@fermata/node`.
 *
 * @category services
 * @since 0.1.0
 */
export const Tokenizer = Context.Reference<Tokenizer>("@fermata/sdk/model/Tokenizer", {
  defaultValue: () => estimate
})

/** What counts of a request. */
export type Counted = Pick<ModelRequest, "instructions" | "messages" | "tools">

/** What a provider counted, and for what. */
interface ProviderCount extends Pick<Counted, "instructions" | "tools"> {
  readonly first: Message | undefined
  readonly count: number
  readonly inputTokens: number
}

/** By the last message of the counted request. */
const providerCounts = new WeakMap<Message, ProviderCount>()

/**
 * Keeps what a provider counted for a request. Later requests that begin with the same messages, and have the same instructions and
 * tools, are counted from there.
 */
export const remember = (request: Counted, { inputTokens }: ModelUsage): void => {
  const last = request.messages.at(-1)
  if (last === undefined || inputTokens <= 0) return
  const { instructions, messages, tools } = request
  // Not the request itself: it holds a list of all messages, and what the run has passed along.
  providerCounts.set(last, { first: messages[0], count: messages.length, instructions, tools, inputTokens })
}

/** The tokens of a request: what a provider counted for its beginning, and a count of the rest. */
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

/** Messages never change, so the same ones at both ends, and as many, are the same beginning. */
const isBeginning = (before: ProviderCount, request: Counted, last: number): boolean =>
  before.count === last + 1 &&
  before.first === request.messages[0] &&
  before.tools === request.tools &&
  before.instructions === request.instructions

/** The tokens of messages, from one of them on. */
export const countMessages = (tokenizer: Tokenizer, messages: ReadonlyArray<Message>, from = 0): number => {
  let tokens = 0
  for (let index = from; index < messages.length; index += 1)
    tokens += countMessage(tokenizer, messages[index]!)
  return tokens
}

/** What a provider puts around a message: its role, its beginning and its end. */
const tokensAroundMessage = 4

/** What an image or a document takes is its provider's secret; most take about this much. */
const tokensOfFile = 1500

/** Counts of what does not change any more, by tokenizer. */
const countCache = new WeakMap<Tokenizer, WeakMap<object, number>>()

const cachedCount = (tokenizer: Tokenizer, value: object, count: () => number): number => {
  let counts = countCache.get(tokenizer)
  if (counts === undefined) countCache.set(tokenizer, (counts = new WeakMap()))
  let tokens = counts.get(value)
  if (tokens === undefined) counts.set(value, (tokens = count()))
  return tokens
}

/** Throws where a tokenizer of a program without types has answered something else than a number. */
const countText = (tokenizer: Tokenizer, text: string): number => {
  const count: unknown = tokenizer.count(text)
  if (typeof count === "number" && count >= 0 && count <= Number.MAX_SAFE_INTEGER) return count
  throw new TypeError("the tokenizer has not returned a number of tokens")
}

const countMessage = (tokenizer: Tokenizer, message: Message): number =>
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

/** Text goes to the model as it is: four characters of base64 are three bytes, which are about a token. */
const countFile = ({ mediaType, source }: FilePart): number =>
  source._tag === "bytes" && (mediaType.startsWith("text/") || mediaType === "application/json")
    ? Math.ceil(source.base64.length / 4)
    : tokensOfFile

const countTools = (tokenizer: Tokenizer, tools: ReadonlyArray<ToolDefinition>): number =>
  cachedCount(tokenizer, tools, () => {
    let tokens = 0
    for (const { description, name, parameters } of tools) {
      tokens += tokensAroundMessage + countText(tokenizer, name) + countText(tokenizer, description)
      tokens += countText(tokenizer, JSON.stringify(parameters))
    }
    return tokens
  })
