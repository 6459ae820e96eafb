/**
 * Looking at JSON that a provider or a model wrote, without believing anything about it. Cheaper than decoding with a schema, and blind
 * to everything that is not asked for, as reading a stream has to be.
 */
import type * as Schema from "effect/Schema"

/** A JSON object whose fields may be anything. */
export type Fields = Readonly<Record<string, unknown>>

/** The value, where it is an object. */
export const fieldsOf = (value: unknown): Fields | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined

/** The value, where it is a text with something in it. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined

/** The value, where it is a whole number from 0. */
export const countOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined

/** What a text is as JSON; `undefined` where it is none. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * The arguments of a call in an answer that came to its proper end: as the port has them, or as they were written when they are no
 * object. The loop does not run a call like that; it reports it to the model.
 */
export const writtenArguments = (text: string): string => wholeArguments(text) ?? text

/** The arguments as the port has them, "" for none; `undefined` when they are not one whole object. */
export const wholeArguments = (text: string): string | undefined => {
  const trimmed = text.trim()
  if (trimmed === "" || trimmed === "null") return ""
  return fieldsOf(parseJson(text)) === undefined ? undefined : text
}

/** The arguments of a call of the history as a value. What is not one whole object is wrapped in one. */
export const argumentsValue = (text: string): Schema.JsonObject => {
  const whole = wholeArguments(text)
  return whole === undefined ? { malformed: text } : whole === "" ? {} : JSON.parse(whole)
}

/** The same as text: some servers parse the arguments of past calls and fail on what is not an object. */
export const argumentsText = (text: string): string =>
  wholeArguments(text) || JSON.stringify(argumentsValue(text))
