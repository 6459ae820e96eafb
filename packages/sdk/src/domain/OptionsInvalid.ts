/**
 * What is wrong with the keys of something that a program gave: an option that there is not, a value that is no plain object.
 *
 * A key that is not known would otherwise be left out in silence, and with it a limit, an expiry or the edit of a call.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { sentence } from "./Display.ts"
import { keysOf, optionMisfits, type Shape } from "./internal/misfits.ts"
import { Misfit } from "./Misfit.ts"

export type { Shape } from "./internal/misfits.ts"
export { Misfit } from "./Misfit.ts"

/** The options of a call have a key that there is not, or are no plain object. Nothing was done. */
export class OptionsInvalid extends Schema.TaggedError<OptionsInvalid>()("OptionsInvalid", {
  /** Whose options they are: the name of the function. */
  of: Schema.String,
  misfits: Schema.Array(Misfit)
}) {
  override get message() {
    const problems = this.misfits.map(({ problem }) => problem).join("; ")
    return sentence`${this.of} was given what it does not take, and nothing was done: ${problems}.`
  }
}

/** Why the options of a function cannot be used; `undefined` where they can. */
export const problemOf = (of: string, given: unknown, shape: Shape): OptionsInvalid | undefined => {
  const found = optionMisfits(given, shape, `the options of ${of}`)
  return found.length === 0 ? undefined : new OptionsInvalid({ of, misfits: found })
}

/**
 * Checks that options are a plain object with these keys and no others; left out, they are right. For functions of other packages that
 * take options as Fermata's do.
 */
export const checkKeys = (
  of: string,
  given: unknown,
  keys: Iterable<string>
): Result.Result<void, OptionsInvalid> => {
  const problem = problemOf(of, given, keysOf(keys))
  return problem === undefined ? Result.void : Result.fail(problem)
}
