/**
 * Decisions as a person says them: `approve()`, `deny("too late in the day")`.
 *
 * @since 0.1.0
 */
import type * as Schema from "effect/Schema"
import type { DecisionBody } from "../domain/Decision.ts"
import type { GrantRequest } from "../domain/Grant.ts"
import { withoutUndefined } from "../domain/internal/untyped.ts"
import { requireApproval, requireDenial } from "./internal/body.ts"

export type { DecisionBody } from "../domain/Decision.ts"

/**
 * Run the call: as asked, with other arguments, or from now on (`grant`). Throws `DecisionMalformed` for a key that there is not, as
 * {@link deny} does.
 */
export const approve = (
  options: { readonly arguments?: Schema.Json; readonly grant?: GrantRequest } = {}
): DecisionBody => {
  requireApproval(options)
  const { arguments: edited, grant } = options
  return { _tag: "approve", ...withoutUndefined({ arguments: edited, grant }) }
}

/** Do not run the call. The model reads the message and goes on; with `then: "stop"` the run that asked ends. */
export const deny = (
  message?: string,
  options: { readonly then?: "continue" | "stop" } = {}
): DecisionBody => {
  requireDenial(options)
  return { _tag: "deny", ...withoutUndefined({ message, then: options.then }) }
}

/** The answer to a question. */
export const answer = (text: string): DecisionBody => ({ _tag: "answer", answer: text })

/** The call's result, from outside; the tool does not run. */
export const supply = (result: Schema.Json): DecisionBody => ({ _tag: "supply", result })

/** A call in doubt: run it again. A login: done, try again. */
export const retry = (): DecisionBody => ({ _tag: "retry" })

/** A call in doubt did not happen, or went wrong. */
export const fail = (message?: string): DecisionBody => ({ _tag: "fail", ...withoutUndefined({ message }) })

/** A used-up budget gets a new total. */
export const topUp = (limit: number): DecisionBody => ({ _tag: "topUp", limit })
