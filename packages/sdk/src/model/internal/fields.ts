/**
 * Looking at JSON that somebody else wrote, without believing anything about it. Cheaper than decoding with a schema, and blind
 * to everything that is not asked for, as reading a stream has to be.
 */

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
