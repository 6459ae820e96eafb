/**
 * The arguments of a call as a tool's schema decoded them: what is shown and digested is what the body gets.
 *
 * Decoded arguments that are JSON are kept as they are and never decoded again, so that neither a default nor a transformation that a
 * deploy changed comes between an approval and its body. Those that are no JSON, such as a date, are decoded again for the body, and
 * compared with what they looked like.
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { copyJson, maxGivenDepth, sameJson } from "../../domain/internal/json.ts"
import type { Decoder } from "../DataSchema.ts"

/** Decoded arguments, for the journal, for a person and for the body. */
export interface DecodedArguments {
  /** In the form that the schema reads. */
  readonly arguments: Schema.Json
  /** As JSON: what a person is shown and a grant is compared with. */
  readonly shown: Schema.Json
  /** Set when the decoded arguments are no JSON: what they look like. */
  readonly rendering: Schema.Json | undefined
}

/** Describes what a schema made of `json`. */
export const describeDecoded = (
  decoder: Pick<Decoder<unknown>, "encode">,
  json: Schema.Json,
  decoded: unknown
): DecodedArguments => {
  const encoded = decoder.encode?.(decoded)
  const plain = copyJson(decoded)
  if (plain !== undefined) return { arguments: encoded ?? json, shown: plain, rendering: undefined }
  const rendering = render(decoded)
  return { arguments: encoded ?? json, shown: encoded ?? renderWithGiven(decoded, json), rendering }
}

/**
 * The value of edited arguments, which have to be exactly what the body gets.
 *
 * **Details**
 *
 * An edit is written in the form that was shown. One that the schema would change (a default that it lacks, a field that the tool
 * does not know, a transformation) is refused: the approver has not seen what would run.
 */
export const decodeEdited = (
  decoder: Pick<Decoder<unknown>, "encode">,
  decode: Decoder<unknown>["decode"],
  edited: Schema.Json
): Effect.Effect<unknown, string> => {
  const isShown = (decoded: unknown) => sameJson(describeDecoded(decoder, edited, decoded).shown, edited)
  const asGiven = Effect.flatMap(decode(edited), (decoded) =>
    isShown(decoded) ? Effect.succeed(decoded) : Effect.fail(changedText(decoder, edited, decoded))
  )
  // Where the decoded form is another than what the schema reads, a codec with a way back takes the decoded form.
  const encoded = decoder.encode === undefined ? undefined : safely(() => decoder.encode?.(edited))
  if (encoded === undefined || sameJson(encoded, edited)) return asGiven
  return decode(encoded).pipe(
    Effect.filterOrFail(isShown, () => ""),
    Effect.catch(() => asGiven)
  )
}

const changedText = (
  decoder: Pick<Decoder<unknown>, "encode">,
  edited: Schema.Json,
  decoded: unknown
): string =>
  `its schema turns them into ${JSON.stringify(describeDecoded(decoder, edited, decoded).shown)}, which would run without having been approved. Approve exactly those, or deny the call.`

const copied: ReadonlySet<unknown> = new Set([
  Array.prototype,
  Date.prototype,
  Map.prototype,
  Object.prototype,
  Set.prototype,
  Uint8Array.prototype
])

/** A copy of what a schema made of JSON; `undefined` where it holds what cannot be copied, such as an object of a class. */
export const copyDecoded = (value: unknown): unknown => (isCopied(value) ? structuredClone(value) : undefined)

const isCopied = (value: unknown, levels: number = maxGivenDepth): boolean => {
  if (typeof value === "function" || typeof value === "symbol") return false
  if (typeof value !== "object" || value === null) return true
  if (levels <= 0 || !copied.has(Object.getPrototypeOf(value))) return false
  if (value instanceof Uint8Array) return true
  if (value instanceof Map || value instanceof Set)
    return [...value].every((item) => isCopied(item, levels - 1))
  const names = Object.keys(value)
  const isPlain = Reflect.ownKeys(value).length === names.length + (Array.isArray(value) ? 1 : 0)
  return isPlain && names.every((name) => isCopied(Reflect.get(value, name), levels - 1))
}

const safely = <A>(f: () => A): A | undefined => {
  try {
    return f()
  } catch {
    return undefined
  }
}

/** What a value looks like, as JSON. Two values that look the same count as the same. */
const render = (value: unknown, levels: number = maxGivenDepth): Schema.Json => look(value, levels).json

/** What a value looks like, and whether there may be more to it: an object of a class shows what the class lets out. */
interface Look {
  readonly json: Schema.Json
  readonly isOpaque: boolean
}

const clear = (json: Schema.Json): Look => ({ json, isOpaque: false })
const opaque = (json: Schema.Json): Look => ({ json, isOpaque: true })

/** `given` is what the schema read at this place, where that is known. Beside it, what is opaque shows both. */
const look = (value: unknown, levels: number, given?: Schema.Json): Look => {
  switch (typeof value) {
    case "string":
    case "boolean":
      return clear(value)
    case "number":
      return clear(Number.isFinite(value) ? value : String(value))
    case "object":
      if (value === null) return clear(null)
      return levels <= 0 ? opaque("[nested too deep]") : lookAt(value, levels - 1, given)
    case "bigint":
      return clear(value.toString())
    case "undefined":
      return clear(null)
    default:
      return opaque(`[${typeof value}]`)
  }
}

const lookAt = (value: object, levels: number, given: Schema.Json | undefined): Look => {
  if (value instanceof Date)
    return clear(Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString())
  if (Array.isArray(value)) {
    // What is not there would be shown as if it were, and no journal takes it.
    for (let index = 0; index < value.length; index += 1)
      if (!(index in value)) throw new TypeError("its schema makes a list with holes of its arguments")
    const items: ReadonlyArray<Schema.Json> = Array.isArray(given) ? given : []
    return listed(value.map((item, index) => lookWithGiven(item, levels, items[index])))
  }
  if (value instanceof Map || value instanceof Set) {
    return listed(Array.from(value, (item: unknown) => look(item, levels)))
  }
  if (ArrayBuffer.isView(value))
    return clear(Array.from(new Uint8Array(value.buffer, value.byteOffset, value.byteLength)))
  if (value instanceof URL) return clear(value.href)
  if ("toJSON" in value && typeof value.toJSON === "function") {
    return opaque(look(value.toJSON(), levels).json)
  }
  if (value instanceof RegExp) return clear(String(value))
  const prototype: unknown = Object.getPrototypeOf(value)
  const isPlain = prototype === Object.prototype || prototype === null
  const fields = isPlain && typeof given === "object" && given !== null ? (given as Schema.JsonObject) : {}
  const names = Object.keys(value)
  let isOpaque = !isPlain || Reflect.ownKeys(value).length > names.length
  const entries: Array<readonly [string, Schema.Json]> = []
  for (const name of names) {
    const field: unknown = Reflect.get(value, name)
    if (field === undefined) continue
    const seen = lookWithGiven(field, levels, Object.hasOwn(fields, name) ? fields[name] : undefined)
    entries.push([name, seen.json])
    isOpaque ||= seen.isOpaque
  }
  return { json: Object.fromEntries(entries), isOpaque }
}

const listed = (items: ReadonlyArray<Look>): Look => ({
  json: items.map(({ json }) => json),
  isOpaque: items.some(({ isOpaque }) => isOpaque)
})

const lookWithGiven = (value: unknown, levels: number, given: Schema.Json | undefined): Look => {
  const seen = look(value, levels, given)
  if (!seen.isOpaque || given === undefined) return seen
  const saysNothing = sameJson(seen.json, {}) || sameJson(seen.json, given)
  return clear(saysNothing ? given : { given, is: seen.json })
}

/** What a person is shown of a value that is no JSON: what it looks like and, where that may not be all, what it was made from. */
const renderWithGiven = (value: unknown, given: Schema.Json): Schema.Json =>
  lookWithGiven(value, maxGivenDepth, given).json
