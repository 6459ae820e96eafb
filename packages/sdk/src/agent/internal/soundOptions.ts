/**
 * Checks of options from programs without types. Invalid numbers and durations are refused where a function can return an error, and
 * otherwise replaced by their defaults, so that no operation waits for ever.
 */
import * as Effect from "effect/Effect"
import { type Shape } from "../../domain/internal/misfits.ts"
import { kindOf, millisOf, readOnce } from "../../domain/internal/untyped.ts"
import { type OptionsInvalid, problemOf } from "../../domain/OptionsInvalid.ts"
import { RuntimeOptionsInvalid } from "../RuntimeError.ts"

/** The options that are numbers or durations, by name. */
export type Kinds = Readonly<Record<string, "number" | "duration">>

const isNumber = (value: unknown): value is number => typeof value === "number" && !Number.isNaN(value)

/** Copies options and refuses unknown keys. `of` is the name of the function that takes them, for the error. */
export const requireOptions = <Options>(
  of: string,
  given: Options,
  shape: Shape
): Effect.Effect<Options, OptionsInvalid> => {
  const own = readOnce(given, 1)
  const problem = problemOf(of, own, shape)
  return problem === undefined ? Effect.succeed(own) : Effect.fail(problem)
}

/** Refuses options that are not a number or a duration as `kinds` states. Options may be left out. */
export const checkOptions = (given: unknown, kinds: Kinds): Effect.Effect<void, RuntimeOptionsInvalid> => {
  if (given === undefined) return Effect.void
  if (typeof given !== "object" || given === null) {
    return Effect.fail(
      new RuntimeOptionsInvalid({
        problems: [{ knob: "options", problem: `the options are ${kindOf(given)}, and have to be an object` }]
      })
    )
  }
  const problems = Object.entries(kinds).flatMap(([knob, kind]) => {
    const value = (given as Readonly<Record<string, unknown>>)[knob]
    const isSound = kind === "number" ? isNumber(value) : millisOf(value) !== undefined
    if (value === undefined || isSound) return []
    const word = Number.isNaN(value)
      ? "NaN"
      : typeof value === "string" && kind === "duration"
        ? 'a string unlike "2 seconds"'
        : kindOf(value)
    return [{ knob, problem: `"${knob}" is ${word}, and has to be a ${kind}` }]
  })
  return problems.length === 0 ? Effect.void : Effect.fail(new RuntimeOptionsInvalid({ problems }))
}

/** A whole number, at least `least`; `otherwise` if the option is not a number. */
export const atLeast = (least: number, given: unknown, otherwise: number): number =>
  isNumber(given) ? Math.max(least, Math.trunc(given)) : otherwise

/** The milliseconds of a duration; `otherwise` if the option is not a duration. */
export const millisOr = (given: unknown, otherwise: number): number => millisOf(given) ?? otherwise
