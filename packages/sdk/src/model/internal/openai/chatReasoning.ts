/**
 * Reads and sends back reasoning in `/chat/completions`.
 *
 * The protocol has no field for reasoning, so each provider has its own. The text is for display. The payload contains the field in which
 * the text arrived or, if the text alone is not enough (signatures, encrypted reasoning), the provider's own items. Both are sent back
 * only to the provider that sent them.
 */
import type * as Schema from "effect/Schema"
import { defined } from "../../../domain/internal/defined.ts"
import type { ReasoningPart } from "../../../domain/Message.ts"
import type { Compatibility } from "../../ModelProfile.ts"
import { type Fields, fieldsOf, textOf } from "../fields.ts"
import { extraOf } from "./chatCalls.ts"

/** A field that contains reasoning as text. `thinking` is Mistral's, a part of the content. */
export type ReasoningField = "reasoning_content" | "reasoning" | "reasoning_text" | "thinking"

/** Some servers send the same text in two fields. The first that is not empty counts. */
const textFields = ["reasoning_content", "reasoning", "reasoning_text"] as const

/** Returns a piece of reasoning and the field that contains it. */
export const reasoningIn = (
  delta: Fields
): { readonly text: string; readonly field: ReasoningField | undefined } | undefined => {
  for (const field of textFields) {
    const text = textOf(delta[field])
    if (text !== undefined) return { text, field }
  }
  if (!Array.isArray(delta.reasoning_details)) return undefined
  let text = ""
  for (const detail of delta.reasoning_details) {
    const fields = fieldsOf(detail)
    text += textOf(fields?.text) ?? textOf(fields?.summary) ?? ""
  }
  return text === "" ? undefined : { text, field: undefined }
}

/** Collects OpenRouter's `reasoning_details`, whose texts arrive in pieces. Mutable. */
export interface ReasoningDetails {
  readonly add: (details: unknown) => void
  /** Returns the details since the last call of `take`, with pieces joined; `undefined` for none. */
  readonly take: () => ReadonlyArray<Schema.JsonObject> | undefined
}

/** Makes an empty collection of details. */
export const makeReasoningDetails = (): ReasoningDetails => {
  let details: Array<Record<string, Schema.Json>> = []
  return {
    add: (added) => {
      if (!Array.isArray(added)) return
      for (const item of added) {
        const detail = extraOf(item)
        if (detail === undefined) continue
        const last = details.at(-1)
        if (last !== undefined && isPieceOf(last, detail)) join(last, detail)
        else details.push({ ...detail })
      }
    },
    take: () => {
      const taken = details.filter((detail) => hasContent(detail))
      details = []
      return taken.length === 0 ? undefined : taken
    }
  }
}

const isPieceOf = (last: Schema.JsonObject, next: Schema.JsonObject): boolean =>
  (next.type === "reasoning.text" || next.type === "reasoning.summary") &&
  next.type === last.type &&
  next.index === last.index &&
  (typeof next.id !== "string" || typeof last.id !== "string" || next.id === last.id)

const join = (last: Record<string, Schema.Json>, next: Schema.JsonObject): void => {
  for (const [key, value] of Object.entries(next)) {
    if (value === null || value === "" || key === "__proto__") continue
    const before = last[key]
    const inPieces = key === "text" || key === "summary"
    last[key] = inPieces && typeof before === "string" && typeof value === "string" ? before + value : value
  }
}

const hasContent = (detail: Schema.JsonObject): boolean =>
  ["text", "summary", "signature", "data"].some((key) => textOf(detail[key]) !== undefined) ||
  (detail.type !== "reasoning.text" && detail.type !== "reasoning.summary")

/** Returns the payload of a piece of reasoning. */
export const payloadFor = (
  field: ReasoningField | undefined,
  details: ReadonlyArray<Schema.JsonObject> | undefined,
  extra: Schema.JsonObject | undefined
): Schema.JsonObject | undefined => {
  const payload = defined({
    reasoning_details: details,
    extra_content: extra,
    // The details contain the text, too. Without `field`, it is not sent twice.
    field: details === undefined ? field : undefined
  })
  return Object.keys(payload).length === 0 ? undefined : payload
}

/** Encodes the reasoning of an assistant message in the form that its provider expects. `own` are the parts from that provider. */
export const replayReasoning = (
  own: ReadonlyArray<ReasoningPart>,
  hasCalls: boolean,
  replay: Compatibility["reasoningReplay"]
) => {
  /** Fields to add to the message. */
  const fields: Record<string, Schema.Json> = {}
  /** Parts to put before the content. */
  const thinking: Array<Schema.JsonObject> = []
  if (replay === "none") return { fields, thinking }
  const pieces = own.map(({ payload, text }) => ({ text, kept: fieldsOf(payload) ?? {} }))
  const details = pieces.flatMap(({ kept }) =>
    Array.isArray(kept.reasoning_details) ? (kept.reasoning_details as ReadonlyArray<Schema.Json>) : []
  )
  const inDetails = replay === "reasoning_details" || (replay === undefined && details.length > 0)
  if (inDetails && details.length > 0) fields.reasoning_details = details
  for (const { kept, text } of pieces) {
    const extra = extraOf(kept.extra_content)
    if (extra !== undefined) fields.extra_content = extra
    const field = replay ?? textOf(kept.field)
    if (inDetails || field === undefined || text === "") continue
    if (field === "thinking") thinking.push({ type: "thinking", thinking: [{ type: "text", text }] })
    else fields[field] = `${textOf(fields[field]) ?? ""}${text}`
  }
  // DeepSeek refuses a message with calls but without this field, even if another model wrote the message.
  if (hasCalls && replay === "reasoning_content") fields.reasoning_content ??= ""
  return { fields, thinking }
}
