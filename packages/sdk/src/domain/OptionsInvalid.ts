/**
 * Checks the options of functions for unknown and missing keys and for values of the wrong kind.
 *
 * Without the check, a misspelt key would be ignored silently, and with it a limit, an expiry or the edit of a call.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { sentence } from "./Display.ts"
import { keysOf, optionMisfits, type Shape } from "./internal/misfits.ts"
import { Misfit } from "./Misfit.ts"
import { TaggedError } from "./TaggedError.ts"

export type { Shape } from "./internal/misfits.ts"
export { Misfit } from "./Misfit.ts"

/** The options of a function are not a plain object, have an unknown key or a wrong value, or lack a required key. Nothing was done. */
export class OptionsInvalid extends TaggedError<OptionsInvalid>()("OptionsInvalid", {
  /** The name of the function. */
  of: Schema.String,
  misfits: Schema.Array(Misfit)
}) {
  override get message() {
    const problems = this.misfits.map(({ problem }) => problem).join("; ")
    return sentence`The options of ${this.of} are invalid, and nothing was done: ${problems}.`
  }
}

/** Checks the options of the function `of` against a shape. Returns the error, or `undefined` if they are valid or `undefined`. */
export const problemOf = (of: string, given: unknown, shape: Shape): OptionsInvalid | undefined => {
  const found = optionMisfits(given, shape, `the options of ${of}`)
  return found.length === 0 ? undefined : new OptionsInvalid({ of, misfits: found })
}

/**
 * Checks that options are a plain object with no other keys than these. `undefined` is valid. For functions of other packages whose
 * options are checked as Fermata checks its own.
 */
export const checkKeys = (
  of: string,
  given: unknown,
  keys: Iterable<string>
): Result.Result<void, OptionsInvalid> => {
  const problem = problemOf(of, given, keysOf(keys))
  return problem === undefined ? Result.void : Result.fail(problem)
}
