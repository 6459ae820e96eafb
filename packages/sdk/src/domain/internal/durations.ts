/**
 * Durations as programs without types give them: what Effect takes for no time at all, such as `NaN` or `{}`, is none.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"

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

/** The milliseconds of a duration, which may be infinite; `undefined` of what is none, or less than nothing. */
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
