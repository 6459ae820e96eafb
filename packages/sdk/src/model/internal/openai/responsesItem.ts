/**
 * The items of a response of `/responses`: their final parts, and the payloads that are sent back.
 */
import type * as Schema from "effect/Schema"
import { isDeeperThan, maxGivenDepth } from "../../../domain/internal/json.ts"
import { type Fields, fieldsOf, textOf, writtenArguments } from "../fields.ts"
import type { Ending, Piece } from "../pieces.ts"

/** The kind of a text in an item: `said` is the message, `summary` a summary of the reasoning, `raw` the reasoning itself. */
export type Channel = "said" | "summary" | "raw"

/** One item of the response, as received so far. */
export interface Item extends Piece {
  readonly type: string
  /** The fields at the item's beginning, later those of its final form. */
  fields: Fields
  /** `fields` is the final form. */
  done: boolean
  /** The channel whose deltas are emitted: the one of the first delta. */
  live: Channel | undefined
  readonly texts: Readonly<Record<Channel, Map<number, string>>>
  /** The arguments of a call, as received so far. */
  arguments: string
  readonly ordinal: number
}

/** The end of an item that is not a call. */
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
  // An incomplete item is not sent back.
  if (!item.done || type === "") return {}
  return { payload: payloadOf(fields) }
}

/** A reasoning item of which only the beginning and deltas arrived. Its encrypted content may be incomplete, so it is omitted. */
const written = (fields: Fields, raw: string, summary: string): Fields => ({
  ...fields,
  encrypted_content: null,
  type: "reasoning",
  summary: summary === "" ? [] : [{ type: "summary_text", text: summary }],
  ...(raw === "" ? {} : { content: [{ type: "reasoning_text", text: raw }] })
})

/** A call with its payload; `undefined` if it has no name or is marked as incomplete. */
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

/** A key that is equal for a call and its repetition; `undefined` if the call has no `call_id`. */
export const callKeyOf = (item: Item): string | undefined => {
  const { call_id: callId, name } = item.fields
  return textOf(callId) === undefined ? undefined : JSON.stringify([callId, name, argumentsOf(item)])
}

export const nameOf = (item: Item): string => textOf(item.fields.name) ?? "a tool"

/** The payload of an item, unchanged. Of an item nested too deeply to be stored, only the type is kept. */
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
