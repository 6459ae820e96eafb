/**
 * Numbers and durations among the options of programs without types: refused where a caller can be given an error, and otherwise
 * replaced by their defaults, so that nothing waits for ever because of one.
 */
import * as Effect from "effect/Effect"
import { type Shape } from "../../domain/internal/misfits.ts"
import { kindOf, millisOf, readOnce } from "../../domain/internal/untyped.ts"
import { type OptionsInvalid, problemOf } from "../../domain/OptionsInvalid.ts"
import { RuntimeOptionsInvalid } from "../RuntimeError.ts"

/** Options that are numbers or durations, by name. */
export type Kinds = Readonly<Record<string, "number" | "duration">>

const isNumber = (value: unknown): value is number => typeof value === "number" && !Number.isNaN(value)

/** A copy of options. Refuses keys that nothing reads. `of` is the function that is given them. */
export const requireOptions = <Options>(
  of: string,
  given: Options,
  shape: Shape
): Effect.Effect<Options, OptionsInvalid> => {
  const own = readOnce(given, 1)
  const problem = problemOf(of, own, shape)
  return problem === undefined ? Effect.succeed(own) : Effect.fail(problem)
}

/** Refuses options of which one is not of its kind. Those that are left out are right. */
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
      : typeof value === "string"
        ? "a text that is none"
        : kindOf(value)
    return [{ knob, problem: `"${knob}" is ${word}, and has to be a ${kind}` }]
  })
  return problems.length === 0 ? Effect.void : Effect.fail(new RuntimeOptionsInvalid({ problems }))
}

/** A whole number of at least so much. */
export const atLeast = (least: number, given: unknown, otherwise: number): number =>
  isNumber(given) ? Math.max(least, Math.trunc(given)) : otherwise

/** The milliseconds of a duration. */
export const millisOr = (given: unknown, otherwise: number): number => millisOf(given) ?? otherwise
