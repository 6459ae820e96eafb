/**
 * Times and durations that options take.
 */
import * as DateTime from "effect/DateTime"
import * as Option from "effect/Option"
import type { Kind } from "../../domain/internal/misfits.ts"
import { millisOf } from "../../domain/internal/untyped.ts"

/** The last time that a `Date` can have, in milliseconds since 1970. */
export const lastDate = 8.64e15

/** The milliseconds of a time; `undefined` if it is none. */
export const timeOf = (given: unknown): number | undefined => {
  if (typeof given !== "string" && typeof given !== "number" && !(given instanceof Date)) {
    return DateTime.isDateTime(given) ? DateTime.toEpochMillis(given) : undefined
  }
  return Option.getOrUndefined(Option.map(DateTime.make(given), DateTime.toEpochMillis))
}

/** The kind of an option that takes a time. */
export const timeKind: Kind = {
  takes: "a time, such as a Date, an ISO 8601 string or the number that Date.now() returns",
  is: (value) => timeOf(value) !== undefined,
  among: ["string", "number"]
}

/** The kind of an option that takes a duration which ends at a time that a `Date` can have. */
export const finiteDuration: Kind = {
  takes: 'a finite duration, such as "2 hours"',
  is: (value) => (millisOf(value) ?? Infinity) <= lastDate,
  among: ["string", "number"]
}
