/**
 * The keys of a decision as a person says it, before it is about a request.
 */
import { bodyMisfits, grantShape, problemsOf } from "../../domain/internal/given.ts"
import { keysOf, optionMisfits } from "../../domain/internal/misfits.ts"
import { readOnce } from "../../domain/internal/untyped.ts"
import type { Misfit } from "../../domain/Misfit.ts"
import { DecisionMalformed } from "../../domain/Rejection.ts"

const refuse = (found: ReadonlyArray<Misfit>): void => {
  if (found.length > 0) throw new DecisionMalformed({ issues: problemsOf(found), misfits: found })
}

/** A copy of a decision. Throws `DecisionMalformed` for a key that a decision of its kind does not have. */
export const requireBody = <Body>(given: Body): Body => {
  const body = readOnce(given, 1)
  refuse(bodyMisfits(body))
  return body
}

const approveShape = keysOf(["arguments"], { grant: grantShape })

const denyShape = keysOf(["then"])

/** The same for the options of `approve`, and of `deny`. */
export const requireApproval = (options: unknown): void =>
  refuse(optionMisfits(options, approveShape, "the options of approve"))
export const requireDenial = (options: unknown): void =>
  refuse(optionMisfits(options, denyShape, "the options of deny"))
