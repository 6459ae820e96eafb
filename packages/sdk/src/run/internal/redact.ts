/**
 * Removes secrets from events before they are folded, published or written. The state in memory, the journal and every subscriber have the
 * same text of an event, without the secrets that the scrubber knows. See `ShownParts` for the parts of a streamed response.
 */
import type * as Schema from "effect/Schema"
import type { Decision } from "../../domain/Decision.ts"
import { defined } from "../../domain/internal/defined.ts"
import { mapUnlessSame, textOfBytes, withBytes } from "../../domain/internal/files.ts"
import type { FilePart, UserPart } from "../../domain/Message.ts"
import type { AnsweredPart, RunEvent } from "../../domain/RunEvent.ts"
import type { ModelPart } from "../../model/ModelPart.ts"
import { counted } from "../../tool/internal/scrub/redactions.ts"
import { type Scrubber, withheld } from "../../tool/Scrubber.ts"

/**
 * Removes secrets from a text. Host paths stay; `scrub` removes them, from the results, failures, progress, output and previews of tools
 * only.
 */
export const redactText = (scrubber: Scrubber, text: string): string =>
  counted(text, cleanText(scrubber, text))

const cleanText = (scrubber: Scrubber, text: string): string =>
  scrubber.redact === undefined ? scrubber.scrub(text) : scrubber.redact(text)

/** Removes secrets from an event that is written, and counts them. Returns the same object if it has none. */
export const redactEvent = (scrubber: Scrubber, event: RunEvent): RunEvent =>
  counted(event, cleanEvent(scrubber, event))

/** Redacts an event that is not written, like {@link redactEvent}, but does not count the secrets. */
export const cleanEvent = (scrubber: Scrubber, event: RunEvent): RunEvent => {
  switch (event._tag) {
    // These contain only names, numbers and ids, or arguments and results that are redacted where they are read.
    case "tool.classified":
    case "tool.started":
    case "tool.notStarted":
    case "sandbox.opened":
    case "tool.completed":
    case "request.expiring":
    case "limits.changed":
    case "run.held":
    case "run.recovered":
    case "run.restored":
    case "run.resumed":
      return event
    // The other fields come from the program: names, limits, fingerprints.
    case "run.started": {
      const prompt = mapUnlessSame(event.prompt, (part) => redact(scrubber, part))
      return prompt === event.prompt ? event : { ...event, prompt }
    }
    case "memory.retrieved": {
      // Ids are not texts: the store finds items by them.
      const query = cleanText(scrubber, event.query)
      const items =
        event.items &&
        mapUnlessSame(event.items, (item) => {
          const text = cleanText(scrubber, item.text)
          return text === item.text ? item : { ...item, text }
        })
      const isSame = query === event.query && items === event.items
      return isSame ? event : { ...event, query, ...defined({ items }) }
    }
    case "child.advanced": {
      const inner = cleanEvent(scrubber, event.event)
      return inner === event.event ? event : { ...event, event: inner }
    }
    case "model.answered": {
      const content = mapUnlessSame(event.content, (part) => cleanPart(scrubber, part))
      return content === event.content ? event : { ...event, content }
    }
    default:
      return redact(scrubber, event)
  }
}

/** Returns the message without secrets. Its id is not scrubbed, because the sender refers to the message by it. */
export const redactMessage = <Message extends { readonly content: ReadonlyArray<UserPart> }>(
  scrubber: Scrubber,
  message: Message
): Message => {
  const { content } = message
  const event = redactEvent(scrubber, { _tag: "message.queued", at: 0, content })
  return event._tag === "message.queued" ? { ...message, content: event.content } : message
}

/** Removes secrets from a decision. */
export const redactDecision = (scrubber: Scrubber, decision: Decision): Decision =>
  counted(decision, redact(scrubber, decision))

/** Removes secrets from JSON: from strings, from the names of fields, and where the name of a field says that its value is one. */
export const redactJson = (scrubber: Scrubber, json: Schema.Json): Schema.Json =>
  counted(json, cleanJson(scrubber, json))

/** As {@link redactJson}, for a value that is not written. */
export const cleanJson = (scrubber: Scrubber, json: Schema.Json): Schema.Json =>
  redactFree(scrubber, json) as Schema.Json

/** Whether the scrubber failed on a text of a value. Such arguments reach no body, and such a decision is not taken. */
export const holdsWithheld = (value: unknown): boolean => {
  if (typeof value !== "object" || value === null) return value === withheld
  return Object.entries(value).some(([key, field]) => key === withheld || holdsWithheld(field))
}

/** Removes secrets from a part of a response. A changed part loses its payload, since the provider's signature no longer matches. */
export const cleanPart = <Part extends AnsweredPart | ModelPart>(scrubber: Scrubber, part: Part): Part => {
  const clean = redact(scrubber, part)
  return clean === part ? part : withoutPayload(clean)
}

/** The part without the data of its provider. */
export const withoutPayload = <Part extends AnsweredPart | ModelPart>(part: Part): Part => {
  if (!("payload" in part)) return part
  const { payload: _, provider: __, ...rest } = part
  return rest as Part
}

/** Fields of events and parts that are not text: ids, digests, and data for a provider or decoder. */
const opaque: ReadonlySet<string> = new Set([
  "_tag",
  "requestId",
  "runId",
  "sessionId",
  "callId",
  "providerCallId",
  "grantId",
  "digest",
  "idempotencyKey",
  "token",
  "messageId",
  "payload",
  "base64",
  "sha256"
])

/** Fields with free content of a model, a tool or a person. Every string in them is redacted, also in fields with an opaque name. */
const free: ReadonlySet<string> = new Set(["arguments", "result", "output"])

const redact = <A>(scrubber: Scrubber, value: A): A => redactUnknown(scrubber, value) as A

const redactUnknown = (scrubber: Scrubber, given: unknown): unknown => {
  if (typeof given === "string") return cleanText(scrubber, given)
  if (Array.isArray(given)) return mapUnlessSame(given, (item) => redactUnknown(scrubber, item))
  if (typeof given !== "object" || given === null) return given
  const value = isFile(given) ? withCleanText(scrubber, given) : given
  let changed: Record<string, unknown> | undefined
  for (const key of Object.keys(value)) {
    const field = (value as Record<string, unknown>)[key]
    if (typeof field === "number" || typeof field === "boolean") continue
    const clean = opaque.has(key)
      ? field
      : free.has(key)
        ? redactFree(scrubber, field)
        : redactUnknown(scrubber, field)
    if (clean !== field) (changed ??= { ...value })[key] = clean
  }
  return changed ?? value
}

const redactFree = (scrubber: Scrubber, value: unknown): unknown =>
  redactStrings(scrubber, withoutNamed(scrubber, value))

/** Removes the values that the names of their fields show to be secrets. */
const withoutNamed = ({ redactFields }: Scrubber, value: unknown): unknown => {
  if (redactFields === undefined || typeof value !== "object" || value === null) return value
  try {
    const json = JSON.stringify(value)
    const clean = redactFields(json)
    return clean === json ? value : JSON.parse(clean)
  } catch {
    return withheld
  }
}

const isFile = (value: object): value is FilePart =>
  "_tag" in value && value._tag === "file" && "source" in value && typeof value.source === "object"

/** Removes secrets from the content of a file that is a text. */
const withCleanText = (scrubber: Scrubber, file: FilePart): FilePart => {
  const words = textOfBytes(file)
  if (words === undefined) return file
  const clean = cleanText(scrubber, words)
  return clean === words ? file : withBytes(file, clean)
}

/** Redacts every string, including the names of fields. */
const redactStrings = (scrubber: Scrubber, value: unknown): unknown => {
  if (typeof value !== "object" || value === null) return redactUnknown(scrubber, value)
  if (Array.isArray(value)) return mapUnlessSame(value, (item) => redactStrings(scrubber, item))
  for (const key of Object.keys(value)) {
    const field = (value as Record<string, unknown>)[key]
    if (cleanText(scrubber, key) !== key || redactStrings(scrubber, field) !== field)
      return redactFields(scrubber, value)
  }
  // Usually nothing changes, so the check copies nothing.
  return value
}

const redactFields = (scrubber: Scrubber, value: object): unknown =>
  Object.fromEntries(
    Object.entries(value).map(([key, field]) => [cleanText(scrubber, key), redactStrings(scrubber, field)])
  )
