/**
 * Checks the context that a caller gave to a run.
 */
import * as Result from "effect/Result"
import * as RunContext from "../RunContext.ts"
import { ContextInvalid } from "../RunError.ts"
import { copyJson, isDeeperThan } from "./json.ts"
import { kindOf } from "./untyped.ts"

/** Copies and checks a context: a JSON object of a bounded size. A later change of the caller's object does not change the copy. */
export const checkContext = (given: unknown): Result.Result<RunContext.RunContext, ContextInvalid> => {
  const refuse = (issues: string) => Result.fail(new ContextInvalid({ issues }))
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    return refuse(`it is ${Array.isArray(given) ? "a list" : kindOf(given)}, and has to be an object`)
  }
  if (isDeeperThan(given, RunContext.maxDepth)) {
    return refuse(`it is nested more than ${RunContext.maxDepth} levels deep`)
  }
  const copy = copyJson(given) as RunContext.RunContext | undefined
  if (copy === undefined) {
    return refuse(
      "it holds a value that is not JSON, such as a date or an object of a class: give plain data"
    )
  }
  const { length } = JSON.stringify(copy)
  return length > RunContext.maxCharacters
    ? refuse(`it has ${length} characters as JSON, and may have ${RunContext.maxCharacters}`)
    : Result.succeed(copy)
}
