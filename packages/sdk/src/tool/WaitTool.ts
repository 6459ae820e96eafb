/**
 * A tool with which a model waits.
 *
 * @since 0.1.0
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { instant, sentence } from "../domain/Display.ts"
import { shapeOf } from "../domain/internal/misfits.ts"
import { millisOf } from "../domain/internal/untyped.ts"
import { problemOf } from "../domain/OptionsInvalid.ts"
import { wait } from "./Hold.ts"
import { finiteDuration, timeOf } from "./internal/times.ts"
import * as Tool from "./Tool.ts"
import { ToolFailure } from "./ToolError.ts"

/** The arguments of the wait tool; one of `until` and `for`. */
export const Arguments = Schema.Struct({
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
 * Makes a tool named `wait`, with which the model waits until a time, or for a time: the run is held meanwhile, and a worker or a handle
 * continues it. Arguments that cannot be used fail the call with the reason, such as a time without its offset from UTC or a wait that is
 * longer than `max`. Throws `OptionsInvalid` for a wrong option.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (
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
    parameters: Arguments,
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
