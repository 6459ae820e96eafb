/**
 * Checks the keys of a decision and the request that it answers, before the one is bound to the other.
 */
import * as Schema from "effect/Schema"
import { bodyMisfits, grantShape, problemsOf } from "../../domain/internal/given.ts"
import { isDeeperThan, maxGivenDepth } from "../../domain/internal/json.ts"
import { json, keysOf, oneOf, optionMisfits } from "../../domain/internal/misfits.ts"
import { readOnce } from "../../domain/internal/untyped.ts"
import { Interruption, type ToolApprovalItem } from "../../domain/Interruption.ts"
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

const isRequest = Schema.is(Interruption)

/**
 * The approval request that a caller gives to decide it, as the caller has it. Throws `DecisionMalformed` for an object with an id that is
 * not a whole request: its missing or changed part could be what a person has not seen.
 */
export const shownIn = (given: unknown): ToolApprovalItem | undefined => {
  if (typeof given !== "object" || given === null) return undefined
  if (!("requestId" in given) || typeof given.requestId !== "string") return undefined
  const request = isDeeperThan(given, maxGivenDepth) ? undefined : readOnce(given)
  if (isRequest(request)) return request._tag === "approval" ? request : undefined
  const issues =
    "the request is not as an inbox shows it: give it whole and unchanged, or give its requestId alone"
  throw new DecisionMalformed({ issues })
}
