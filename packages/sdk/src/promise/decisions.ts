/**
 * Constructors of decisions: `approve()`, `deny("too late in the day")`. Pass the result to `decide` with a request.
 *
 * @since 0.1.0
 */
import type * as Schema from "effect/Schema"
import type { DecisionBody } from "../domain/Decision.ts"
import type { GrantRequest } from "../domain/Grant.ts"
import { withoutUndefined } from "../domain/internal/untyped.ts"
import { requireApproval, requireBody, requireDenial } from "./internal/body.ts"

export type { DecisionBody } from "../domain/Decision.ts"

/**
 * Approves a call: it runs with the arguments that the request showed, or with `arguments`. With `grant`, later calls that the grant covers
 * need no decision. Throws `DecisionMalformed` for an unknown option and for a value of the wrong type, as all functions of this
 * module do.
 */
export const approve = (
  options: { readonly arguments?: Schema.Json; readonly grant?: GrantRequest } = {}
): DecisionBody => {
  requireApproval(options)
  const { arguments: edited, grant } = options
  return { _tag: "approve", ...withoutUndefined({ arguments: edited, grant }) }
}

/**
 * Denies a request. The model receives `message` and continues; with `then: "stop"`, the run that opened the request ends.
 */
export const deny = (
  message?: string,
  options: { readonly then?: "continue" | "stop" } = {}
): DecisionBody => {
  requireDenial(options)
  return requireBody({ _tag: "deny", ...withoutUndefined({ message, then: options.then }) })
}

/** Answers a question. */
export const answer = (text: string): DecisionBody => requireBody({ _tag: "answer", answer: text })

/** Supplies the result of a call from outside, instead of an approval or for a call in doubt; the tool does not run. */
export const supply = (result: Schema.Json): DecisionBody => requireBody({ _tag: "supply", result })

/** Runs a call in doubt again, or retries after a login. */
export const retry = (): DecisionBody => ({ _tag: "retry" })

/** Fails a call in doubt: it did not happen, or did not succeed. The model receives `message`. */
export const fail = (message?: string): DecisionBody =>
  requireBody({ _tag: "fail", ...withoutUndefined({ message }) })

/** Raises an exhausted budget to a new total of `limit`. */
export const topUp = (limit: number): DecisionBody => requireBody({ _tag: "topUp", limit })
