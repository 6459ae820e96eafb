/**
 * Values as programs without types give them: what kind one is, in words; whether it is a duration, or a plain object; and a copy that
 * no getter and no later change can make differ from what was checked.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import { maxGivenDepth } from "./json.ts"

/** What kind of value it is, with its article. Nothing of the value itself is shown. */
export const kindOf = (value: unknown): string => {
  if (value === null || value === undefined) return String(value)
  if (Array.isArray(value)) return "a list"
  return typeof value === "object" ? "an object" : `a ${typeof value}`
}

/** A copy without the keys whose value is `undefined`. */
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

/** The milliseconds of a duration, which may be infinite; `undefined` of what Effect takes for no time at all, such as `NaN` or `{}`. */
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

/** Made by a literal, by `JSON.parse`, or without a prototype; in any realm. What else there is keeps its values where no key shows them. */
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

/** A copy with each key read once, `levels` deep. What is no list and no plain object is the value itself: the check refuses it. */
export const readOnce = <A>(given: A, levels: number = maxGivenDepth): A => read(given, levels) as A

const read = (value: unknown, levels: number): unknown => {
  if (typeof value !== "object" || value === null || levels <= 0) return value
  if (Array.isArray(value)) return Array.from(value, (item: unknown) => read(item, levels - 1))
  if (!isPlain(value)) return value
  const copy = {}
  // With the keys that no copy by spreading has, so that they are refused.
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
