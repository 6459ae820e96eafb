/**
 * The items of an answer of `/responses`: what they come to, and what goes back in their place.
 */
import type * as Schema from "effect/Schema"
import { isDeeperThan, maxGivenDepth } from "../../../domain/internal/json.ts"
import { type Fields, fieldsOf, textOf, writtenArguments } from "../fields.ts"
import type { Ending, Piece } from "../pieces.ts"

/** Where a text of an item belongs: what is said, a summary of the reasoning, or the reasoning itself. */
export type Channel = "said" | "summary" | "raw"

/** One item of the answer, as far as it has come. */
export interface Item extends Piece {
  readonly type: string
  /** As it was when it began, or as it came whole. */
  fields: Fields
  /** Whether `fields` is the provider's last word on it. */
  done: boolean
  /** The channel that is emitted as it grows: the one that spoke first. */
  live: Channel | undefined
  readonly texts: Readonly<Record<Channel, Map<number, string>>>
  /** Of a call. */
  arguments: string
  readonly ordinal: number
}

/** What an item ends with. */
export const endingOf = (item: Item): Ending => {
  const { fields, kind, texts, type } = item
  if (kind === "text") {
    const text = textsIn(fields.content) || join(texts.said)
    if (text === "" && item.emitted === 0) return {}
    const { content: _, role: __, status: ___, ...rest } = fields
    return { text, payload: payloadOf({ ...rest, type }) }
  }
  if (kind === "reasoning") {
    const raw = textsIn(fields.content) || join(texts.raw)
    const summary = textsIn(fields.summary) || join(texts.summary)
    return { text: raw || summary, payload: payloadOf(item.done ? fields : written(fields, raw, summary)) }
  }
  if (type === "image_generation_call" && textOf(fields.result) !== undefined) {
    const mediaType = `image/${textOf(fields.output_format) ?? "png"}`
    const source = { _tag: "bytes", base64: fields.result as string } as const
    return { part: { _tag: "file", file: { _tag: "file", mediaType, source } } }
  }
  // An incomplete item is of no use.
  if (!item.done || type === "") return {}
  return { payload: payloadOf(fields) }
}

/** A reasoning item that is known by its deltas alone. What is encrypted in it may be half of it. */
const written = (fields: Fields, raw: string, summary: string): Fields => ({
  ...fields,
  encrypted_content: null,
  type: "reasoning",
  summary: summary === "" ? [] : [{ type: "summary_text", text: summary }],
  ...(raw === "" ? {} : { content: [{ type: "reasoning_text", text: raw }] })
})

/** A call with what goes back with it; `undefined` when it is not whole. */
export const callOf = (item: Item, provider: string): Ending | undefined => {
  const { arguments: _, call_id: callId, name: __, status, ...rest } = item.fields
  const text = status === "incomplete" ? undefined : writtenArguments(argumentsOf(item))
  const name = textOf(item.fields.name)
  if (text === undefined || name === undefined) return undefined
  const providerCallId = textOf(callId) ?? textOf(rest.id) ?? ""
  const payload = payloadOf({ ...rest, type: "function_call" })
  return { part: { _tag: "tool-call", providerCallId, name, arguments: text, provider, payload } }
}

const argumentsOf = ({ arguments: streamed, fields: { arguments: last } }: Item): string =>
  textOf(last) ?? (fieldsOf(last) === undefined ? streamed : JSON.stringify(last))

/** What two calls have in common when one repeats the other; `undefined` where nothing shows it. */
export const callKeyOf = (item: Item): string | undefined => {
  const { call_id: callId, name } = item.fields
  return textOf(callId) === undefined ? undefined : JSON.stringify([callId, name, argumentsOf(item)])
}

export const nameOf = (item: Item): string => textOf(item.fields.name) ?? "a tool"

/** What goes back unchanged; of what lies too deep to be kept, its type. */
const payloadOf = (fields: Fields): Schema.Json =>
  isDeeperThan(fields, maxGivenDepth) ? { type: textOf(fields.type) ?? "" } : (fields as Schema.JsonObject)

const textsIn = (parts: unknown): string => {
  let text = ""
  if (Array.isArray(parts)) {
    for (const part of parts) {
      const fields = fieldsOf(part)
      text += textOf(fields?.text) ?? textOf(fields?.refusal) ?? ""
    }
  }
  return text
}

const join = (texts: ReadonlyMap<number, string>): string =>
  [...texts]
    .sort(([a], [b]) => a - b)
    .map(([, text]) => text)
    .join("")

export const isRefusal = ({ content }: Fields): boolean =>
  Array.isArray(content) && content.some((part) => fieldsOf(part)?.type === "refusal")
