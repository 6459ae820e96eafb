/**
 * Checks the keys of a decision before it is bound to a request.
 */
import { bodyMisfits, grantShape, problemsOf } from "../../domain/internal/given.ts"
import { json, keysOf, oneOf, optionMisfits } from "../../domain/internal/misfits.ts"
import { readOnce } from "../../domain/internal/untyped.ts"
import type { Misfit } from "../../domain/Misfit.ts"
import { DecisionMalformed } from "../../domain/Rejection.ts"

const refuse = (found: ReadonlyArray<Misfit>): void => {
  if (found.length > 0) throw new DecisionMalformed({ issues: problemsOf(found), misfits: found })
}

/** Copies a decision. Throws `DecisionMalformed` for a key or a value that a decision of its kind cannot have. */
export const requireBody = <Body>(given: Body): Body => {
  const body = readOnce(given, 1)
  refuse(bodyMisfits(body))
  return body
}

const approveShape = keysOf([], { arguments: json, grant: grantShape })

const denyShape = keysOf([], { then: oneOf("continue", "stop") })

/** Throws `DecisionMalformed` for unknown options of `approve`. */
export const requireApproval = (options: unknown): void =>
  refuse(optionMisfits(options, approveShape, "the options of approve"))

/** Throws `DecisionMalformed` for unknown options of `deny`. */
export const requireDenial = (options: unknown): void =>
  refuse(optionMisfits(options, denyShape, "the options of deny"))
