/**
 * The JSON Schema of a schema library, without the defaults that a function of the program makes.
 *
 * Such a default is another value in each process, such as a random id or the time. The model must not copy it, and it must not make the
 * tool of a held run seem to be another tool in the process that resumes the run.
 */
import type * as Schema from "effect/Schema"
import { sameJson } from "../../domain/internal/json.ts"
import { isPlain } from "../../domain/internal/untyped.ts"

/** Makes the schema twice, and leaves out the defaults in which the two differ. */
export const lastingSchema = (make: () => Schema.JsonObject): Schema.JsonObject => {
  const first = make()
  if (!hasDefault(first)) return first
  nextMillisecond()
  return withoutChanging(first, make()) as Schema.JsonObject
}

const hasDefault = (value: unknown): boolean =>
  Array.isArray(value)
    ? value.some(hasDefault)
    : isObject(value) && (Object.hasOwn(value, "default") || Object.values(value).some(hasDefault))

/** The keywords whose value has schemas by name, so that a key `default` in it is a name. */
const named = new Set(["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"])

const withoutChanging = (first: unknown, second: unknown, isNamed = false): unknown => {
  if (Array.isArray(first) && Array.isArray(second))
    return first.map((item: unknown, index) => withoutChanging(item, second[index]))
  if (!isObject(first) || !isObject(second)) return first
  return Object.fromEntries(
    Object.entries(first).flatMap(([key, value]) => {
      const other = second[key]
      const isDefault = key === "default" && !isNamed
      if (isDefault) return sameJson(value as Schema.Json, other as Schema.Json) ? [[key, value]] : []
      return [[key, withoutChanging(value, other, named.has(key) && !isNamed)]]
    })
  )
}

/** Waits until the clock shows another time, so that a default that is the time differs. Ends after some milliseconds if it never does. */
const nextMillisecond = (): void => {
  const now = Date.now()
  for (let looks = 0; looks < 100_000 && Date.now() === now; looks += 1);
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && isPlain(value)
