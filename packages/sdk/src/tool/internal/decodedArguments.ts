/**
 * The arguments of a call as decoded by the tool's schema. The body receives the arguments that the request showed and the digest binds.
 *
 * Decoded arguments that are JSON are stored, and the body receives them as stored, so that a deploy that changes a default or a
 * transformation cannot change an approved call. Others, such as dates, are decoded again for the body, and compared with their stored
 * rendering.
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { copyJson, maxGivenDepth, sameJson } from "../../domain/internal/json.ts"
import type { Decoder } from "../DataSchema.ts"

/** Decoded arguments, as the journal stores them. */
export interface DecodedArguments {
  /** The encoded arguments, which the schema can decode. */
  readonly arguments: Schema.Json
  /** The decoded arguments as JSON, which a request shows and a grant is compared with. */
  readonly shown: Schema.Json
  /** The rendering of decoded arguments that are not JSON; `undefined` for JSON. */
  readonly rendering: Schema.Json | undefined
}

/** Describes the value that a schema decoded from `json`. */
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
 * Decodes edited arguments, which must be exactly what the body receives.
 *
 * **Details**
 *
 * An edit has the form that the request showed. It is refused if the schema would change it, for example by a default, by removing an
 * unknown field or by a transformation: the body would receive arguments that the request did not show.
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
  // The request showed the decoded form. If the schema decodes from another form, the edit is encoded first.
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

/** Copies decoded arguments. Returns `undefined` if they contain a value that cannot be copied, such as an instance of a class. */
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

/** Renders a value as JSON. Values with the same rendering count as equal. */
const render = (value: unknown, levels: number = maxGivenDepth): Schema.Json => look(value, levels).json

/** The rendering of a value. `isOpaque` if the value may contain more than it shows, such as an instance of a class. */
interface Look {
  readonly json: Schema.Json
  readonly isOpaque: boolean
}

const clear = (json: Schema.Json): Look => ({ json, isOpaque: false })
const opaque = (json: Schema.Json): Look => ({ json, isOpaque: true })

/** Renders a value. An opaque part is shown with `given`, the JSON from which the schema decoded it, if that is known. */
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
    // A hole would be shown like a value, and a journal cannot store it.
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
  const addsNothing = sameJson(seen.json, {}) || sameJson(seen.json, given)
  return clear(addsNothing ? given : { given, is: seen.json })
}

/** The form in which a request shows a value that is not JSON: its rendering, with the JSON it was decoded from where it is opaque. */
const renderWithGiven = (value: unknown, given: Schema.Json): Schema.Json =>
  lookWithGiven(value, maxGivenDepth, given).json
