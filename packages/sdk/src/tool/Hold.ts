/**
 * Holds: what a handler returns when the result of its call comes later.
 *
 * A handler that returns a hold has done its work. The call opens a request of the kind `timer`, and the run is held like any other: no
 * process and no memory is needed until the time has come. User code is never called again to find the place where it stopped, so the
 * result of the call is the end of the wait.
 *
 * @since 0.1.0
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { instant, sentence } from "../domain/Display.ts"
import { type Kind, shapeOf, string } from "../domain/internal/misfits.ts"
import { millisOf } from "../domain/internal/untyped.ts"
import { OptionsInvalid, problemOf } from "../domain/OptionsInvalid.ts"
import * as Tool from "./Tool.ts"
import { ToolFailure } from "./ToolError.ts"

const holdTag = "~fermata/hold"

/** A hold until a time. Made by {@link wait}. */
export interface Wait {
  readonly [holdTag]: "timer"
  /** When the wait ends, in milliseconds since 1970: absent if it ends a time after its start. */
  readonly until?: number
  readonly forMs?: number
  readonly reason?: string
}

/** What a handler returns when the result of its call comes later. */
export type Hold = Wait

/** How long to wait: until a time, or for a time from the end of the handler on. */
export type WaitOptions = (
  | { readonly until: DateTime.DateTime.Input; readonly for?: never }
  | { readonly for: Duration.Input; readonly until?: never }
) & {
  /** What the call waits for, as `pending` and `explain` show it. */
  readonly reason?: string
}

const lastDate = 8.64e15

/** The milliseconds of a time; `undefined` if it is none. */
const timeOf = (given: unknown): number | undefined => {
  if (typeof given !== "string" && typeof given !== "number" && !(given instanceof Date)) {
    return DateTime.isDateTime(given) ? DateTime.toEpochMillis(given) : undefined
  }
  return Option.getOrUndefined(Option.map(DateTime.make(given), DateTime.toEpochMillis))
}

const timeKind: Kind = {
  takes: "a time, such as a Date, an ISO 8601 string or the number that Date.now() returns",
  is: (value) => timeOf(value) !== undefined,
  among: ["string", "number"]
}

const finiteDuration: Kind = {
  takes: 'a finite duration, such as "2 hours"',
  is: (value) => (millisOf(value) ?? Infinity) <= lastDate,
  among: ["string", "number"]
}

const waitShape = shapeOf<{ until: unknown; for: unknown; reason: unknown }>({
  until: timeKind,
  for: finiteDuration,
  reason: string
})

/**
 * Holds the call that returns it until a time, and with it the run. The result of the call says that the wait is over. A time that has
 * passed holds nothing.
 *
 * **Example** (Looking again tomorrow)
 *
 * ```ts run
 * import { Hold, Tool } from "@fermata/sdk"
 *
 * const snooze = Tool.make("snooze", {
 *   safety: "readOnly",
 *   handler: () => Hold.wait({ for: "1 day", reason: "the report comes overnight" })
 * })
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an unknown key, a value that is no time or no duration, and unless exactly one of `until` and `for` is given.
 *
 * @category constructors
 * @since 0.1.0
 */
export const wait = (options: WaitOptions): Wait => {
  const problem = problemOf("wait", options ?? null, waitShape)
  if (problem !== undefined) throw problem
  const { for: given, reason, until } = options
  if ((until === undefined) === (given === undefined)) {
    const place = "the options of wait"
    const wrong = `${place} take either "until" or "for"`
    throw new OptionsInvalid({ of: "wait", misfits: [{ place, problem: wrong }] })
  }
  return {
    [holdTag]: "timer",
    ...(until === undefined ? { forMs: millisOf(given) ?? 0 } : { until: timeOf(until) ?? 0 }),
    ...(reason === undefined ? {} : { reason })
  }
}

/** The hold that a handler returned; `undefined` for any other value, also for one that throws when it is inspected. */
export const holdOf = (value: unknown): Hold | undefined => {
  try {
    return typeof value === "object" && value !== null && holdTag in value ? (value as Hold) : undefined
  } catch {
    return undefined
  }
}

/** When a wait that is recorded at `at` ends, at most at the last time of `Date`. */
export const endOf = ({ forMs = 0, until }: Wait, at: number): number =>
  Math.min(Math.ceil(until ?? at + forMs), lastDate)

/** The arguments of {@link waitTool}. */
export const WaitArguments = Schema.Struct({
  until: Schema.optionalKey(
    Schema.String.annotate({
      description: 'The time, in ISO 8601 with its offset: "2026-03-01T09:00:00+01:00"'
    })
  ),
  for: Schema.optionalKey(
    Schema.String.annotate({
      description: 'How long, as a number and a unit: "90 seconds", "2 hours", "3 days"'
    })
  ),
  reason: Schema.optionalKey(Schema.String.annotate({ description: "What to wait for" }))
})

const hasOffset = /(z|[+-]\d\d:?\d\d)$/i

/**
 * Makes a tool with which the model waits until a time, or for a time: the run is held meanwhile, and a worker continues it. Arguments that
 * cannot be used fail the call with the reason, such as a time without its offset from UTC or a wait that is longer than `max`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const waitTool = (
  options: {
    /** The longest wait. Default: 30 days. */
    readonly max?: Duration.Input
  } = {}
): Tool.Tool => {
  const problem = problemOf("waitTool", options, shapeOf<{ max: unknown }>({ max: finiteDuration }))
  if (problem !== undefined) throw problem
  const max = Duration.fromInputUnsafe(options.max ?? "30 days")
  return Tool.make("wait", {
    description: `Waits until a time, or for a time, at most ${Duration.format(max)}. Give either "until" or "for".`,
    parameters: WaitArguments,
    safety: "readOnly",
    handler: (given) =>
      Effect.flatMap(DateTime.now, (now) => {
        const refuse = (description: string) => Effect.fail(new ToolFailure({ description }))
        const { for: duration, reason, until } = given
        if ((until === undefined) === (duration === undefined)) return refuse('give either "until" or "for"')
        const at = DateTime.toEpochMillis(now)
        const end =
          until === undefined
            ? at + (millisOf(duration) ?? Number.NaN)
            : hasOffset.test(until)
              ? (timeOf(until) ?? Number.NaN)
              : Number.NaN
        if (Number.isNaN(end)) {
          return refuse(
            until === undefined
              ? sentence`"${duration}" is no duration: write a number and a unit, such as "2 hours"`
              : sentence`"${until}" is no time with an offset: write it like "${instant(at)}", which is now`
          )
        }
        if (end - at > Duration.toMillis(max)) return refuse(`the longest wait is ${Duration.format(max)}`)
        return Effect.succeed(wait({ until: end, ...(reason === undefined ? {} : { reason }) }))
      })
  })
}
