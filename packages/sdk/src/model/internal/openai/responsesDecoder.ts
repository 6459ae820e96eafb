/**
 * Decodes a response of `/responses`, streamed or complete.
 *
 * A response is a list of items. A stream sends each item several times: in deltas, with the item's end, and in the final response. Equal
 * ids mean the same item. Different ids do not mean different items, since some servers change the ids from event to event; such items are
 * distinguished by their `output_index`. The item's own end takes precedence, then the final response, then the deltas. Calls are emitted
 * when the response is complete, and a repeated call only once.
 *
 * An item that is neither text, reasoning nor a function call (searches, code that ran at the provider) becomes empty reasoning with the
 * item as its payload, so that it is sent back at its place.
 */
import { defined } from "../../../domain/internal/defined.ts"
import type { FinishReason } from "../../../domain/RunEvent.ts"
import type { ModelUsage } from "../../../domain/Usage.ts"
import { InvalidRequest, type ModelError, ProviderFault } from "../../ModelError.ts"
import type { ModelPart } from "../../ModelPart.ts"
import { readTypedEvents, statedError } from "../decoding.ts"
import { countOf, type Fields, fieldsOf, textOf } from "../fields.ts"
import { brokenCall, callCut, streamCut, modelError, tooManyPieces } from "../modelError.ts"
import { makePieces, placeIn } from "../pieces.ts"
import type { AnswerDecoder } from "../protocol.ts"
import { reasonOf } from "../providerErrors.ts"
import { costIn } from "./chatUsage.ts"
import { callKeyOf, callOf, type Channel, endingOf, isRefusal, type Item, nameOf } from "./responsesItem.ts"

type Emit = (part: ModelPart) => void

/** The names of the protocol's events. `message` is the name of an event without one. */
const ours = /^(?:message|error|response\..*)$/

/** The events about texts. Those with `said` carry the final text, in that field; the others carry a delta. */
const texts: ReadonlyMap<
  string,
  { readonly channel: Channel; readonly said?: string; readonly isRefusal?: true }
> = new Map([
  ["response.output_text.delta", { channel: "said" }],
  ["response.output_text.done", { channel: "said", said: "text" }],
  ["response.refusal.delta", { channel: "said", isRefusal: true }],
  ["response.refusal.done", { channel: "said", said: "refusal", isRefusal: true }],
  ["response.reasoning_summary_text.delta", { channel: "summary" }],
  ["response.reasoning_summary_text.done", { channel: "summary", said: "text" }],
  ["response.reasoning_text.delta", { channel: "raw" }],
  ["response.reasoning_text.done", { channel: "raw", said: "text" }]
])

/** A decoder that also reads a complete response, which equals the last event of a stream. */
export interface ResponsesDecoder extends AnswerDecoder {
  readonly last: (response: Fields) => ModelError | undefined
}

/** Makes a decoder for one response. Its items are sent back only to `provider`. */
export const responsesDecoder = (provider: string): ResponsesDecoder => {
  const items = makePieces<Item>(provider)
  const latestOf = new Map<string, Item>()
  const itemsById = new Map<string, Item>()
  let calls = 0
  let latest = -1
  let refused = false
  let final: Fields | undefined
  let status = ""
  let usage: ModelUsage | undefined

  const open = (index: number, type: string, fields: Fields, emit: Emit): Item => {
    latest = Math.max(latest, Math.floor(index))
    const item: Item = {
      index,
      type,
      kind: type === "message" ? "text" : type === "reasoning" ? "reasoning" : "other",
      text: "",
      emitted: 0,
      ending: undefined,
      fields,
      done: false,
      live: undefined,
      texts: { said: new Map(), summary: new Map(), raw: new Map() },
      arguments: "",
      ordinal: type === "function_call" ? calls++ : -1
    }
    latestOf.set(type, item)
    remember(item, fields.id)
    return items.add(item, emit)
  }

  const remember = (item: Item, id: unknown) => {
    if (textOf(id) !== undefined) itemsById.set(`${item.type} ${id as string}`, item)
  }

  /** The item of an id. Calls with different `call_id`s are different items, even if a server gives all items the same id. */
  const known = (id: unknown, type: string, callId?: unknown): Item | undefined => {
    const item = textOf(id) === undefined ? undefined : itemsById.get(`${type} ${id as string}`)
    const [one, other] = [textOf(item?.fields.call_id), textOf(callId)]
    return one === undefined || other === undefined || one === other ? item : undefined
  }

  /** The open item of a type that an event belongs to. Some servers omit the `output_index`, or give all items the same one. */
  const find = (event: Fields, type: string): Item | undefined => {
    const index = placeIn(event.output_index)
    const item = index === undefined ? undefined : items.at(index)
    if (item?.type === type && !item.done) return item
    const other = latestOf.get(type)
    return (index === undefined || item !== undefined) && other?.done === false ? other : undefined
  }

  /** The index of a new item: its `output_index`, or the next free one if that is missing or taken. */
  const placeOf = (event: Fields): number => {
    const index = placeIn(event.output_index)
    return index === undefined || items.at(index) !== undefined ? latest + 1 : index
  }

  /** The item that a delta belongs to. It is created if the server has not announced it. */
  const itemOf = (event: Fields, type: string, emit: Emit): Item => {
    const started = known(event.item_id, type) ?? find(event, type) ?? closedAt(event, type)
    if (started !== undefined) return started
    const item = open(placeOf(event), type, {}, emit)
    remember(item, event.item_id)
    return item
  }

  /** The closed item of a late delta. */
  const closedAt = (event: Fields, type: string): Item | undefined => {
    const item = items.at(placeIn(event.output_index) ?? -1)
    return item?.type === type ? item : undefined
  }

  const addText = (event: Fields, channel: Channel, emit: Emit) => {
    if (typeof event.delta !== "string") return
    const item = itemOf(event, channel === "said" ? "message" : "reasoning", emit)
    const place = countOf(channel === "summary" ? event.summary_index : event.content_index) ?? 0
    const texts = item.texts[channel]
    texts.set(place, (texts.get(place) ?? "") + event.delta)
    item.live ??= channel
    if (item.live === channel) items.write(item, event.delta, emit)
  }

  const setText = (event: Fields, text: unknown, channel: Channel, emit: Emit) => {
    if (typeof text !== "string" || text === "") return
    const place = countOf(channel === "summary" ? event.summary_index : event.content_index) ?? 0
    itemOf(event, channel === "said" ? "message" : "reasoning", emit).texts[channel].set(place, text)
  }

  const begin = (event: Fields, emit: Emit) => {
    const fields = fieldsOf(event.item)
    if (fields === undefined) return
    const type = textOf(fields.type) ?? ""
    const same = known(fields.id, type, fields.call_id)
    const item = same ?? items.at(placeIn(event.output_index) ?? -1)
    if (item === undefined || item.type !== type || (item.done && item !== same)) {
      open(placeOf(event), type, fields, emit)
    } else if (!item.done) item.fields = fields
  }

  /** Records the final form of an item. Calls stay open until the response is complete. */
  const complete = (item: Item, fields: Fields, emit: Emit) => {
    if (item.done) return
    item.done = true
    item.fields = fields
    remember(item, fields.id)
    if (item.type !== "function_call") items.close(item, endingOf(item), emit)
  }

  const finishItem = (event: Fields, emit: Emit) => {
    const fields = fieldsOf(event.item)
    if (fields === undefined) return
    const type = textOf(fields.type) ?? ""
    const item = known(fields.id, type, fields.call_id) ?? find(event, type)
    complete(item ?? open(placeOf(event), type, fields, emit), fields, emit)
  }

  /** Completes the open items with those of the final response, and adds items that no event announced. */
  const reconcile = (output: ReadonlyArray<unknown>, emit: Emit) => {
    const streamed = Map.groupBy(items.all(), (item) => item.type)
    let index = -1
    for (const value of output) {
      if (items.areTooMany()) return
      const fields = fieldsOf(value)
      if (fields === undefined) continue
      const type = textOf(fields.type) ?? ""
      const item = streamed.get(type)?.shift()
      // A fraction puts a new item between announced ones, which have integer indexes.
      index = item?.index ?? index + 2 ** -20
      complete(item ?? open(index, type, fields, emit), fields, emit)
    }
  }

  const event = (type: string, data: Fields, emit: Emit): ModelError | undefined => {
    const text = texts.get(type)
    if (text !== undefined) {
      refused ||= text.isRefusal === true
      if (text.said === undefined) addText(data, text.channel, emit)
      else setText(data, data[text.said], text.channel, emit)
      return
    }
    switch (type) {
      case "response.function_call_arguments.delta": {
        if (typeof data.delta !== "string") return
        const item = itemOf(data, "function_call", emit)
        if (item.done) return
        item.arguments += data.delta
        const name = textOf(item.fields.name)
        if (name !== undefined && item.ordinal >= 0) {
          emit({ _tag: "tool-call-delta", index: item.ordinal, name, delta: data.delta })
        }
        return
      }
      case "response.function_call_arguments.done":
        if (textOf(data.arguments) !== undefined) {
          itemOf(data, "function_call", emit).arguments = data.arguments as string
        }
        return
      case "response.output_item.added":
        begin(data, emit)
        return
      case "response.output_item.done":
        finishItem(data, emit)
        return
      case "response.completed":
      case "response.incomplete":
      case "response.failed":
      case "response.done": {
        const response = fieldsOf(data.response) ?? {}
        const word = type.slice("response.".length)
        const status = textOf(response.status)
        return terminate(
          response,
          word === "done" || word === "completed" ? (status ?? "completed") : word,
          data
        )
      }
      case "error":
        return statedError(data, latest >= 0)
    }
  }

  const terminate = (response: Fields, word: string, holder: Fields): ModelError | undefined => {
    usage = usageIn(response.usage)
    switch (word) {
      case "completed":
      case "incomplete":
        final = response
        status = word
        return
      case "queued":
      case "in_progress":
        return modelError(
          new InvalidRequest({
            description: `The provider answers in the background (${textOf(response.id) ?? "without an id"}, ${word}). Fermata does not wait for such an answer: remove \`background\` from the settings.`
          })
        )
      case "cancelled":
        return modelError(new ProviderFault({ description: "The answer was cancelled at the provider." }))
      default:
        return modelError(reasonOf(holder))
    }
  }

  const isDone = () => final !== undefined

  const end = (emit: Emit): ModelError | undefined => {
    if (final === undefined) return streamCut()
    reconcile(Array.isArray(final.output) ? final.output : [], emit)
    if (items.areTooMany()) return tooManyPieces()
    const all = items.all()
    const seen = new Set<string>()
    const called = all.filter((item) => {
      if (item.type !== "function_call") return false
      const key = callKeyOf(item)
      const isNew = key === undefined || !seen.has(key)
      if (key !== undefined) seen.add(key)
      return isNew
    })
    const cutBy = status === "incomplete" ? cutReason(fieldsOf(final.incomplete_details)) : undefined
    if (cutBy === "length" && called.length > 0) return callCut(nameOf(called.at(-1)!))
    // The calls of a filtered response do not run.
    const calls = cutBy === "contentFilter" ? [] : called
    for (const item of calls) {
      const ending = callOf(item, provider)
      if (ending === undefined) return brokenCall(nameOf(item))
      items.close(item, ending, emit)
    }
    for (const item of all) items.close(item, item.type === "function_call" ? {} : endingOf(item), emit)
    const refusal = refused || all.some(({ fields }) => isRefusal(fields))
    const wantsTools = calls.length > 0 || all.some(({ type }) => type === "custom_tool_call")
    emit({
      _tag: "finish",
      finishReason: cutBy ?? (wantsTools ? "toolCalls" : refusal ? "contentFilter" : "stop"),
      usage: usage ?? { inputTokens: 0, outputTokens: 0 }
    })
    return undefined
  }

  return {
    event: readTypedEvents({ names: ours, pieces: items, isDone, read: event }),
    end,
    isDone,
    usage: () => usage,
    last: (response) => {
      const failed = fieldsOf(response.error) !== undefined
      return terminate(response, textOf(response.status) ?? (failed ? "failed" : "completed"), response)
    }
  }
}

const cutReason = (details: Fields | undefined): FinishReason => {
  switch (details?.reason) {
    case "max_output_tokens":
    case "max_tokens":
    case "model_context_window_exceeded":
      return "length"
    case "content_filter":
      return "contentFilter"
    default:
      return "other"
  }
}

const usageIn = (value: unknown): ModelUsage | undefined => {
  const usage = fieldsOf(value)
  if (usage === undefined) return undefined
  const { cache_write_tokens, cached_tokens } = fieldsOf(usage.input_tokens_details) ?? {}
  return defined({
    inputTokens: countOf(usage.input_tokens) ?? 0,
    cachedInputTokens: countOf(cached_tokens),
    cacheWriteTokens: countOf(cache_write_tokens),
    outputTokens: countOf(usage.output_tokens) ?? 0,
    reasoningTokens: countOf(fieldsOf(usage.output_tokens_details)?.reasoning_tokens),
    costUsd: costIn(usage)
  })
}
