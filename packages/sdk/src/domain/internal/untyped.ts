/**
 * Handles values from programs without types: names their kind, recognizes durations and plain objects, and copies them, so that neither
 * a getter nor a later change can make the used value differ from the checked one.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import { maxGivenDepth } from "./json.ts"

/** The kind of a value with its article, such as `a list`. Does not reveal the value. */
export const kindOf = (value: unknown): string => {
  if (value === null || value === undefined) return String(value)
  if (Array.isArray(value)) return "a list"
  return typeof value === "object" ? "an object" : `a ${typeof value}`
}

/** Whether a value is an object that has this key, possibly with the value `undefined`. */
export const hasKey = (value: unknown, key: string): boolean =>
  typeof value === "object" && value !== null && key in value

/** Copies an object without the keys whose value is `undefined`. */
export const withoutUndefined = <Given extends object>(given: Given) =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as {
    readonly [Key in keyof Given]?: Exclude<Given[Key], undefined>
  }

const units: ReadonlySet<string> = new Set([
  "weeks",
  "days",
  "hours",
  "minutes",
  "seconds",
  "milliseconds",
  "microseconds",
  "nanoseconds"
])

const isNumber = (value: unknown): boolean => typeof value === "number" && !Number.isNaN(value)

/**
 * The milliseconds of a duration, possibly infinite; `undefined` if the value is not a duration or is negative. Also refuses `NaN` and
 * `{}`, which Effect reads as zero.
 */
export const millisOf = (value: unknown): number | undefined => {
  if (typeof value === "number" && Number.isNaN(value)) return undefined
  if (typeof value === "object" && value !== null && !Duration.isDuration(value)) {
    const parts = Object.entries(value)
    const isKnown = Array.isArray(value) || (parts.length > 0 && parts.every(([unit]) => units.has(unit)))
    if (!isKnown || !parts.every(([, amount]) => isNumber(amount))) return undefined
  }
  const duration = Duration.fromInput(value as Duration.Input)
  const ms = Option.isSome(duration) ? Duration.toMillis(duration.value) : -1
  return ms >= 0 ? ms : undefined
}

/**
 * Whether an object is plain: made by a literal, by `JSON.parse`, or without a prototype, in any realm. Other objects may hold values
 * that their keys do not show.
 */
export const isPlain = (value: object): boolean => {
  if (Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return (
    prototype === null ||
    prototype === Object.prototype ||
    (Object.getPrototypeOf(prototype) === null &&
      Object.hasOwn(prototype as object, "isPrototypeOf") &&
      Object.keys(prototype as object).length === 0)
  )
}

/** Copies lists and plain objects to a depth of `levels`, and reads each key once. Other values are returned as they are. */
export const readOnce = <A>(given: A, levels: number = maxGivenDepth): A => read(given, levels) as A

const read = (value: unknown, levels: number): unknown => {
  if (typeof value !== "object" || value === null || levels <= 0) return value
  if (Array.isArray(value)) return Array.from(value, (item: unknown) => read(item, levels - 1))
  if (!isPlain(value)) return value
  const copy = {}
  // Includes symbols and keys that are not enumerable, which spreading would drop, so that the check can refuse them.
  for (const key of Reflect.ownKeys(value)) {
    Object.defineProperty(copy, key, {
      value: read(Reflect.get(value, key), levels - 1),
      enumerable: Object.prototype.propertyIsEnumerable.call(value, key),
      configurable: true,
      writable: true
    })
  }
  return copy
}
