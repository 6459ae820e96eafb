/**
 * What may be given in values that carry consent, limits and safety, by the schemas that read them.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { ApprovalPolicy, Rule } from "../ApprovalPolicy.ts"
import { Decision } from "../Decision.ts"
import { ArgumentPattern, GrantRequest } from "../Grant.ts"
import { LimitChanges } from "../Limits.ts"
import type { Misfit } from "../Misfit.ts"
import { shape as principal } from "../Principal.ts"
import { LimitsInvalid, PolicyInvalid } from "../RunError.ts"
import { keysOf, type Keys, misfits, optionMisfits, type Shape } from "./misfits.ts"
import { readOnce } from "./untyped.ts"

interface Members {
  readonly members: ReadonlyArray<{
    readonly fields: { readonly _tag: { readonly schema: { readonly literal: string } } }
  }>
}

/** By `_tag`, what each member of a union may have. */
const casesOf = (
  { members }: Members,
  inside: Keys = {}
): { readonly cases: Record<string, { readonly keys: Keys }> } => ({
  cases: Object.fromEntries(
    members.map(({ fields }) => {
      const names = Object.keys(fields)
      const deeper = Object.entries(inside).filter(([name]) => names.includes(name))
      return [fields._tag.schema.literal, keysOf(names, Object.fromEntries(deeper))]
    })
  )
})

/** What a grant is asked for with. */
export const grantShape: Shape = keysOf(Object.keys(GrantRequest.fields), {
  arguments: { values: casesOf(ArgumentPattern), filled: true }
})

const decisionShape = casesOf(Decision, { by: principal, principal, grant: grantShape })

const besides = "it belongs in the options after the decision"
const ofRequest = "it is the request's, which is given before the decision"

const bodyShape: Shape = {
  cases: Object.fromEntries(
    Object.entries(decisionShape.cases).map(([tag, { keys }]) => [
      tag,
      {
        keys: {
          ...keys,
          by: { elsewhere: besides },
          principal: { elsewhere: `${besides}, as "by"` },
          requestId: { elsewhere: ofRequest },
          digest: { elsewhere: ofRequest },
          at: { elsewhere: "the time is added when it is recorded" }
        }
      }
    ])
  )
}

/** What nothing reads in a decision as a caller wrote it. */
export const decisionMisfits = (given: unknown): ReadonlyArray<Misfit> =>
  misfits(given, decisionShape, "the decision")

/** The same before it is about a request. */
export const bodyMisfits = (given: unknown): ReadonlyArray<Misfit> =>
  misfits(given, bodyShape, "the decision")

const policyShape: Shape = keysOf(Object.keys(ApprovalPolicy.fields), {
  rules: { each: keysOf(Object.keys(Rule.fields)) }
})

export const limitsShape: Shape = keysOf(Object.keys(LimitChanges.fields))

/** What is wrong, as a list of sentences. */
export const problemsOf = (found: ReadonlyArray<Misfit>): string =>
  found.map(({ problem }) => problem).join("; ")

/** The policy, its rules, and each of these. */
const policyDepth = 3

const decodePolicy = Schema.decodeUnknownResult(ApprovalPolicy)

/** A copy of a policy. Refuses one that is none, or has keys that nothing reads. */
export const checkPolicy = (given: unknown): Result.Result<ApprovalPolicy, PolicyInvalid> => {
  const own = readOnce(given, policyDepth)
  const found = optionMisfits(own, policyShape, "the policy")
  if (found.length > 0) return Result.fail(new PolicyInvalid({ issues: problemsOf(found), misfits: found }))
  const decoded = decodePolicy(own)
  if (Result.isFailure(decoded)) return Result.fail(new PolicyInvalid({ issues: decoded.failure.message }))
  const { mode, until } = decoded.success
  return until === undefined || mode === "until"
    ? Result.succeed(decoded.success)
    : Result.fail(
        new PolicyInvalid({
          issues: `"until" is read with the mode "until" alone, and the mode is "${mode}"`
        })
      )
}

const decodeLimits = Schema.decodeUnknownResult(LimitChanges)

/** A copy of limits. Refuses those that are none, or have keys that nothing reads: what is no number, or misspelt, bounds nothing. */
export const checkLimits = (given: unknown): Result.Result<LimitChanges, LimitsInvalid> => {
  const found = optionMisfits(given, limitsShape, "the limits")
  if (found.length > 0) return Result.fail(new LimitsInvalid({ issues: problemsOf(found), misfits: found }))
  return Result.mapError(decodeLimits(given), ({ message }) => new LimitsInvalid({ issues: message }))
}
