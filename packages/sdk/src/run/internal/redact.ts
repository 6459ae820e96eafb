/**
 * Takes secrets out of events before they are folded, told or written, so that the state in memory, the journal and every
 * watcher hold the same text, and a secret that was typed into a prompt or an argument is in none of them.
 */
import type * as Schema from "effect/Schema"
import type { Decision } from "../../domain/Decision.ts"
import type { AnsweredPart, RunEvent } from "../../domain/RunEvent.ts"
import { type Scrubber, withheld } from "../../tool/Scrubber.ts"

/** A text without secrets: paths stay, since only what a tool returns or reports is cleaned of them. */
export const redactText = (scrubber: Scrubber, text: string): string =>
  scrubber.redact === undefined ? scrubber.scrub(text) : scrubber.redact(text)

/** The event without secrets; the same object when there are none. */
export const redactEvent = (scrubber: Scrubber, event: RunEvent): RunEvent => {
  switch (event._tag) {
    // Made of names, numbers and ids alone; or of arguments and results, which are cleaned where they are read.
    case "tool.classified":
    case "tool.started":
    case "tool.notStarted":
    case "tool.completed":
    case "request.expiring":
    case "limits.changed":
    case "run.held":
    case "run.recovered":
    case "run.restored":
    case "run.resumed":
      return event
    // What else there is comes from the program: names, limits, fingerprints.
    case "run.started": {
      const prompt = mapUnlessSame(event.prompt, (part) => redact(scrubber, part))
      return prompt === event.prompt ? event : { ...event, prompt }
    }
    case "child.advanced": {
      const inner = redactEvent(scrubber, event.event)
      return inner === event.event ? event : { ...event, event: inner }
    }
    case "model.answered": {
      const content = mapUnlessSame(event.content, (part) => redactPart(scrubber, part))
      return content === event.content ? event : { ...event, content }
    }
    default:
      return redact(scrubber, event)
  }
}

/** A decision without secrets. */
export const redactDecision = (scrubber: Scrubber, decision: Decision): Decision => redact(scrubber, decision)

/** JSON without secrets. */
export const redactJson = (scrubber: Scrubber, json: Schema.Json): Schema.Json =>
  redactFree(scrubber, json) as Schema.Json

/** Whether the scrubber failed on a text of a value: such arguments are not called with, and such a decision is not taken. */
export const holdsWithheld = (value: unknown): boolean => {
  if (typeof value !== "object" || value === null) return value === withheld
  return Object.entries(value).some(([key, field]) => key === withheld || holdsWithheld(field))
}

/** What a provider signed is of no use when what it signed has changed. */
const redactPart = (scrubber: Scrubber, part: AnsweredPart): AnsweredPart => {
  const clean = redact(scrubber, part)
  if (clean === part || !("payload" in clean)) return clean
  const { payload: _, provider: __, ...rest } = clean
  return rest
}

/** Ids, digests, and what only its provider or its decoder can read: not text. In the fields of events and their parts only. */
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
  "messageId",
  "payload",
  "base64"
])

/** Fields that hold whatever a model, a tool or a person made: all of it is text, whatever it is called. */
const free: ReadonlySet<string> = new Set(["arguments", "result", "output"])

const redact = <A>(scrubber: Scrubber, value: A): A => redactUnknown(scrubber, value) as A

const redactUnknown = (scrubber: Scrubber, value: unknown): unknown => {
  if (typeof value === "string") return redactText(scrubber, value)
  if (Array.isArray(value)) return mapUnlessSame(value, (item) => redactUnknown(scrubber, item))
  if (typeof value !== "object" || value === null) return value
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

/** Every text in it, names of fields included. */
const redactFree = (scrubber: Scrubber, value: unknown): unknown => {
  if (typeof value !== "object" || value === null) return redactUnknown(scrubber, value)
  if (Array.isArray(value)) return mapUnlessSame(value, (item) => redactFree(scrubber, item))
  for (const key of Object.keys(value)) {
    const field = (value as Record<string, unknown>)[key]
    if (redactText(scrubber, key) !== key || redactFree(scrubber, field) !== field)
      return redactFields(scrubber, value)
  }
  // Most is clean: nothing is copied to find that out.
  return value
}

const redactFields = (scrubber: Scrubber, value: object): unknown =>
  Object.fromEntries(
    Object.entries(value).map(([key, field]) => [redactText(scrubber, key), redactFree(scrubber, field)])
  )

const mapUnlessSame = <A>(items: ReadonlyArray<A>, f: (item: A) => A): ReadonlyArray<A> => {
  let changed: Array<A> | undefined
  for (let index = 0; index < items.length; index += 1) {
    const item = items[index]!
    const mapped = f(item)
    if (mapped !== item) changed ??= items.slice(0, index)
    changed?.push(mapped)
  }
  return changed ?? items
}
