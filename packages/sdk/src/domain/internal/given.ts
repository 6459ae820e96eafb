/**
 * Checks decisions, policies and limits that a caller gave, by the schemas that read them.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { ApprovalPolicy, Rule } from "../ApprovalPolicy.ts"
import { Decision, type DecisionInput, type DecisionToRecord } from "../Decision.ts"
import { ArgumentPattern, GrantRequest } from "../Grant.ts"
import { RequestId, type Timestamp } from "../Id.ts"
import { LimitChanges, type Limits } from "../Limits.ts"
import type { Misfit } from "../Misfit.ts"
import { attributeUnknown, misattribution, shape as principal } from "../Principal.ts"
import { DecisionMalformed } from "../Rejection.ts"
import { LimitsInvalid, PolicyInvalid } from "../RunError.ts"
import { copyJson, isDeeperThan, maxGivenDepth } from "./json.ts"
import {
  demanded,
  finite,
  flag,
  fraction,
  json,
  keysOf,
  type Keys,
  misfits,
  natural,
  nonEmpty,
  nonNegative,
  note,
  oneOf,
  optionMisfits,
  required,
  type Shape,
  shapeOf,
  string,
  time
} from "./misfits.ts"
import { kindOf, readOnce } from "./untyped.ts"

interface Members {
  readonly members: ReadonlyArray<{
    readonly fields: { readonly _tag: { readonly schema: { readonly literal: string } } }
  }>
}

/** The shape of a union: the keys of each member, by its `_tag`. */
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

/** The shape of a grant request. */
export const grantShape: Shape = demanded(
  shapeOf<GrantRequest>({
    scope: required(oneOf(...GrantRequest.fields.scope.literals)),
    arguments: { values: casesOf(ArgumentPattern, { pattern: required(string) }), filled: true },
    expiresAt: time,
    facts: oneOf("any"),
    untrusted: oneOf("any"),
    inherit: flag
  })
)

/** The kinds of the fields that a decision states, by name. */
const content = {
  arguments: json,
  grant: grantShape,
  message: string,
  then: oneOf("continue", "stop"),
  answer: required(string),
  result: required(json),
  limit: required(finite),
  note
}

const recordShape = casesOf(Decision, { by: principal, principal, ...content })

const added = {
  at: { elsewhere: "the time is added when it is recorded" },
  schema: { elsewhere: "it is added to edited arguments when they are checked" },
  whole: { elsewhere: "it is added to a result that is shortened" }
}

/** A caller's decision: without the fields that the runtime adds. */
const decisionShape = casesOf(Decision, {
  by: principal,
  principal,
  ...content,
  ...added,
  idempotencyKey: nonEmpty
})

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
          digest: { elsewhere: ofRequest }
        }
      }
    ])
  )
}

/** The problems of a decision as a caller wrote it. */
export const decisionMisfits = (given: unknown): ReadonlyArray<Misfit> =>
  misfits(given, decisionShape, "the decision")

/** The problems of a decision's body, which names no request yet. */
export const bodyMisfits = (given: unknown): ReadonlyArray<Misfit> =>
  misfits(given, bodyShape, "the decision")

const policyShape: Shape = shapeOf<ApprovalPolicy>({
  mode: required(oneOf(...ApprovalPolicy.fields.mode.literals)),
  until: time,
  rules: {
    each: demanded(
      shapeOf<Rule>({
        tool: required(string),
        action: required(oneOf(...Rule.fields.action.literals)),
        message: string
      })
    )
  }
})

export const limitsShape: Shape = shapeOf<Limits>({
  maxTurns: natural,
  maxToolCalls: natural,
  maxTreeTurns: natural,
  maxTreeToolCalls: natural,
  maxTokens: natural,
  maxCostUsd: nonNegative,
  maxWallMs: natural,
  warnAt: fraction,
  wrapUp: flag,
  maxContextTokens: natural,
  modelTimeoutMs: natural,
  toolTimeoutMs: natural,
  maxRecoveries: natural,
  toolConcurrency: natural,
  agentConcurrency: natural
})

/** Joins the problems to one text. */
export const problemsOf = (found: ReadonlyArray<Misfit>): string =>
  found.map(({ problem }) => problem).join("; ")

/** Levels of a policy: the policy, its list of rules, and each rule. */
const policyDepth = 3

const decodePolicy = Schema.decodeUnknownResult(ApprovalPolicy)

/** Copies and checks a policy. Refuses an invalid one and unknown keys. */
export const checkPolicy = (given: unknown): Result.Result<ApprovalPolicy, PolicyInvalid> => {
  const own = readOnce(given, policyDepth)
  const found = optionMisfits(own, policyShape, "the policy")
  if (found.length > 0) {
    const example = typeof own === "string" ? ', such as { mode: "ask" }' : ""
    return Result.fail(new PolicyInvalid({ issues: `${problemsOf(found)}${example}`, misfits: found }))
  }
  const decoded = decodePolicy(own)
  if (Result.isFailure(decoded)) return Result.fail(new PolicyInvalid({ issues: decoded.failure.message }))
  const { mode, rules = [], until } = decoded.success
  if (until !== undefined && mode !== "until") {
    const issues = `"until" is read with the mode "until" alone, and the mode is "${mode}"`
    return Result.fail(new PolicyInvalid({ issues }))
  }
  const unread = rules.findIndex(({ action, message }) => message !== undefined && action !== "deny")
  return unread < 0
    ? Result.succeed(decoded.success)
    : Result.fail(
        new PolicyInvalid({
          issues: `"rules.${unread}.message" is read with the action "deny" alone, and the action is "${rules[unread]?.action}"`
        })
      )
}

const decodeLimits = Schema.decodeUnknownResult(LimitChanges)

/** Decodes and checks limits. Refuses invalid ones and unknown keys, because a misspelt limit would bound nothing. */
export const checkLimits = (given: unknown): Result.Result<LimitChanges, LimitsInvalid> => {
  const found = optionMisfits(given, limitsShape, "the limits")
  if (found.length > 0) return Result.fail(new LimitsInvalid({ issues: problemsOf(found), misfits: found }))
  return Result.mapError(decodeLimits(given), ({ message }) => new LimitsInvalid({ issues: message }))
}

const decodeFields = Schema.decodeUnknownResult(Decision)

/** Decodes a decision that a caller wrote, and adds its time. The error does not contain the refused values. */
export const decodeDecision = (
  given: DecisionInput,
  at: Timestamp
): Result.Result<Decision, DecisionMalformed> => decode(given, decisionShape, at)

/** Decodes a decision for a store, which keeps the time and the fingerprint of the schema that it was recorded with. */
export const decodeRecord = (
  given: DecisionToRecord,
  now: Timestamp
): Result.Result<Decision, DecisionMalformed> => decode(given, recordShape, now)

const decode = (
  given: DecisionInput,
  shape: Shape,
  at: Timestamp
): Result.Result<Decision, DecisionMalformed> => {
  const refuse = (issues: string) => Result.fail(new DecisionMalformed({ issues }))
  if (isDeeperThan(given, maxGivenDepth)) return refuse(`it is nested more than ${maxGivenDepth} levels deep`)
  const input = readOnce(given)
  const found = misfits(input, shape, "the decision")
  if (found.length > 0) {
    return Result.fail(new DecisionMalformed({ issues: problemsOf(found), misfits: found }))
  }
  if (typeof input !== "object" || input === null || misattribution(input) !== undefined) {
    return refuse(complaint(input))
  }
  // A copy, so that a later change of the caller's value does not change the decision.
  const own = copyJson(input) ?? input
  const decision = decodeFields({ at, ...(attributeUnknown(own) as object) })
  if (Result.isFailure(decision)) return refuse(complaint(input))
  return own === input ? refuse(notPlain) : Result.succeed(decision.success)
}

const notPlain = "it holds a value that is not JSON, such as a date or an object of a class: give plain data"

const kinds: ReadonlyArray<unknown> = Decision.members.map((member) => member.fields._tag.schema.literal)

const textFields = ["requestId", "by", "idempotencyKey", "note", "digest"] as const
type Texts = { readonly [Name in (typeof textFields)[number]]?: unknown }

const isRequestId = Schema.is(RequestId)

/** The problem of a text field that is not a string, or of the principal; `undefined` if there is none. */
const wrongText = (input: DecisionInput): string | undefined => {
  const given = attributeUnknown(input) as DecisionInput & Texts
  const name = textFields.find((name) => name in given && typeof given[name] !== "string")
  return name === undefined
    ? misattribution(input)
    : `its ${name} is ${kindOf(given[name])}, and has to be a string${name === "by" ? " or a principal" : ""}`
}

const complaint = (input: DecisionInput): string => {
  if (typeof input !== "object" || input === null) return "it is not an object"
  if (!kinds.includes(input._tag)) return `its _tag has to be one of ${kinds.join(", ")}`
  if (input.requestId === undefined)
    return "it names no request, and has no requestId: give a request as an inbox shows it, or its id"
  if (input.by === undefined) return 'it has no "by": give the id of the party that decides, or a principal'
  const wrong = wrongText(input)
  if (wrong !== undefined) return wrong
  if (!isRequestId(input.requestId))
    return "its requestId cannot be the id of a request: list the pending requests"
  return `a field of ${input._tag} is missing or has another type`
}
