/**
 * Reads fields of JSON that a provider or a model wrote, without trusting its shape. This is cheaper than decoding with a schema, and
 * ignores unknown fields, as reading a stream must.
 */
import type * as Schema from "effect/Schema"

/** A JSON object with unknown fields. */
export type Fields = Readonly<Record<string, unknown>>

/** Returns the value if it is an object. */
export const fieldsOf = (value: unknown): Fields | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined

/** Returns the value if it is a string that is not empty. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined

/** Returns the value if it is a safe integer from 0. */
export const countOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined

/** Parses JSON; `undefined` if the text is not JSON. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * The arguments of a call in a complete response: in the port's form, or as written if they are not an object. The loop does not run
 * such a call; it reports the problem to the model.
 */
export const writtenArguments = (text: string): string => wholeArguments(text) ?? text

/** The arguments in the port's form, "" for none; `undefined` if they are not one complete object. */
export const wholeArguments = (text: string): string | undefined => {
  const trimmed = text.trim()
  if (trimmed === "" || trimmed === "null") return ""
  return fieldsOf(parseJson(text)) === undefined ? undefined : text
}

/** The arguments of a call of the history as an object. Other text is wrapped in one. */
export const argumentsValue = (text: string): Schema.JsonObject => {
  const whole = wholeArguments(text)
  return whole === undefined ? { malformed: text } : whole === "" ? {} : JSON.parse(whole)
}

/** The same as JSON text. Some servers parse the arguments of past calls, and fail if they are not an object. */
export const argumentsText = (text: string): string =>
  wholeArguments(text) || JSON.stringify(argumentsValue(text))
