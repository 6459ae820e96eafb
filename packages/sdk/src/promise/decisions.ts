/**
 * Constructors of decisions: `approve()`, `deny("too late in the day")`. Pass the result with a request to `decide`, `decideAll` or
 * `resume`.
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
 * Approves a call: it runs with the arguments that the request showed, or with `arguments`, which the tool's schema has to accept
 * unchanged. The call is checked again before it starts: if its tool, its arguments, its facts or a policy has changed, it is asked about
 * again or denied. With `grant`, later calls that the grant covers need no decision. Throws `DecisionMalformed` for an unknown option and
 * for a value of the wrong type, as the other functions of this module do.
 */
export const approve = (
  options: { readonly arguments?: Schema.Json; readonly grant?: GrantRequest } = {}
): DecisionBody => {
  requireApproval(options)
  const { arguments: edited, grant } = options
  return { _tag: "approve", ...withoutUndefined({ arguments: edited, grant }) }
}

/**
 * Denies a request. After the denial of an approval or a question, the model receives `message`, or a default text, and continues; the
 * denial of an approval also stands for later equal calls of the run, until a person reopens the request. After the denial of a larger
 * budget, the run that opened the request fails with `BudgetExceeded` before its next model call, or at once if the calls of its response
 * exceed the budget, and a sub-agent that waits for the budget fails. With `then: "stop"`, and after the denial of a login, the run that
 * opened the request ends as cancelled. A call in doubt, a timer and an external call cannot be denied, since the call was started: use
 * {@link fail}.
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

/**
 * Gives a call its result from outside. An approval: the tool does not run. A call in doubt: it does not run again. A timer or an external
 * call: the wait ends. The model receives a text as it is, and other JSON as its text. Only the result of an external call is checked, by
 * the `success` schema of the tool if it has one; a result that the schema does not accept is refused with `SuppliedResultInvalid`.
 */
export const supply = (result: Schema.Json): DecisionBody => requireBody({ _tag: "supply", result })

/**
 * Runs a call in doubt again, with the same idempotency key; if its tool, its arguments or its facts have changed since, it is asked about
 * again. Of a login request, repeats the model call after the login.
 */
export const retry = (): DecisionBody => ({ _tag: "retry" })

/**
 * Fails a call in doubt, a timer or an external call: the work of the call did not happen, or did not succeed. The model receives
 * `message`, or a default text.
 */
export const fail = (message?: string): DecisionBody =>
  requireBody({ _tag: "fail", ...withoutUndefined({ message }) })

/**
 * Raises an exhausted budget to a new total of `limit`, in the budget's unit. It must be above the request's `spent` and, except for
 * `cost`, a whole number; otherwise the decision is refused with `DecisionNotApplicable`.
 */
export const topUp = (limit: number): DecisionBody => requireBody({ _tag: "topUp", limit })
