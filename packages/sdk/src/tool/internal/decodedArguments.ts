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
  return { arguments: encoded ?? json, shown: encoded ?? rendering, rendering }
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

const safely = <A>(f: () => A): A | undefined => {
  try {
    return f()
  } catch {
    return undefined
  }
}

/** What a value looks like, as JSON. Two values that look the same count as the same. */
const render = (value: unknown, levels: number = maxGivenDepth): Schema.Json => {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value
    case "number":
      return Number.isFinite(value) ? value : String(value)
    case "object":
      return value === null ? null : levels <= 0 ? "[nested too deep]" : renderObject(value, levels - 1)
    case "bigint":
      return value.toString()
    case "undefined":
      return null
    default:
      return `[${typeof value}]`
  }
}

const renderObject = (value: object, levels: number): Schema.Json => {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString()
  if (Array.isArray(value)) return value.map((item) => render(item, levels))
  if (value instanceof Map || value instanceof Set) return Array.from(value, (item) => render(item, levels))
  if (ArrayBuffer.isView(value))
    return Array.from(new Uint8Array(value.buffer, value.byteOffset, value.byteLength))
  if ("toJSON" in value && typeof value.toJSON === "function") return render(value.toJSON(), levels)
  if (value instanceof RegExp) return String(value)
  const names = Object.keys(value).filter((name) => Reflect.get(value, name) !== undefined)
  return Object.fromEntries(names.map((name) => [name, render(Reflect.get(value, name), levels)]))
}
