/**
 * Judges decisions: the one rule for the state of a run and for the inbox of every store.
 *
 * The order of the checks is a promise. A closed request refuses every decision, the first decision stands (a repetition of it is
 * accepted), an expiry precedes a late decision, and only then is the decision checked against the request.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Decision } from "../Decision.ts"
import type { RequestId, Timestamp } from "../Id.ts"
import { type Interruption, isExpired, type Kind, type LimitRequest } from "../Interruption.ts"
import {
  AlreadyDecided,
  ArgumentsChanged,
  DecisionNotApplicable,
  GrantRefused,
  type Rejection,
  RequestSuperseded
} from "../Rejection.ts"

/** The standing of a request, in the state of its run or in the inbox of a store. */
export type Standing =
  | { readonly _tag: "open" }
  /** The request has this recorded decision. */
  | { readonly _tag: "decided"; readonly decision: Decision }
  /** The request takes no decision any more; `by` is the request that replaced it. */
  | { readonly _tag: "closed"; readonly reason: string; readonly by?: RequestId | undefined }

/**
 * The judgement about a decision: record it (`record`), refuse it (`refusal`; with `record`, the expiry that preceded it is recorded), or
 * accept it as a repetition of `first`.
 */
export interface Verdict {
  readonly record?: Decision
  readonly refusal?: Rejection
  /** The recorded decision that this one repeats. */
  readonly first?: Decision
}

/** Judges a decision on a request with this standing at the time `now`. */
export const judgeDecision = (
  request: Interruption,
  standing: Standing,
  decision: Decision,
  now: Timestamp
): Verdict => {
  const { requestId } = request
  if (standing._tag === "closed") {
    const { by, reason } = standing
    return { refusal: new RequestSuperseded({ requestId, reason, ...(by === undefined ? {} : { by }) }) }
  }
  if (standing._tag === "decided") {
    const first = standing.decision
    return isRepeated(first, decision) ? { first } : { refusal: decidedFirst(first) }
  }
  const expiry = expiryAt(request, now)
  if (expiry !== undefined) return { record: expiry, refusal: decidedFirst(expiry) }
  const checked = check(request, decision)
  return Result.isFailure(checked) ? { refusal: checked.failure } : { record: decision }
}

const decidedFirst = (decision: Decision): AlreadyDecided => {
  const { at, by, requestId } = decision
  return new AlreadyDecided({ requestId, by, at, decision })
}

/** Whether two decisions on one request are the same. */
export const sameDecision = (one: Decision, other: Decision): boolean =>
  (equivalence ??= Schema.toEquivalence(Decision))(one, other)

let equivalence: ((one: Decision, other: Decision) => boolean) | undefined

/** The parts of a decision that its caller chose: without the digest that was shown, and without what the runtime sets. */
export const asSent = (given: Decision): Decision => {
  const { digest: _, ...decision } = given
  if (decision._tag === "supply") {
    const { whole: __, ...supply } = decision
    return supply
  }
  if (decision._tag !== "approve") return decision
  const { schema: __, ...approval } = decision
  return approval
}

/** Whether a decision repeats the recorded one: both have the same idempotency key, and are equal apart from the time and the digest. */
export const isRepeated = (recorded: Decision, decision: Decision): boolean =>
  recorded.idempotencyKey !== undefined &&
  // A repeated decision may carry the digest or not, because the digest only states what was shown.
  sameDecision(asSent(recorded), { ...asSent(decision), at: recorded.at })

/** The kinds of decision that answer each kind of request. */
const applicable: { readonly [K in Kind]: ReadonlyArray<Decision["_tag"]> } = {
  approval: ["approve", "deny", "supply"],
  question: ["answer", "deny"],
  inDoubt: ["retry", "supply", "fail"],
  limit: ["topUp", "deny"],
  login: ["retry", "deny"],
  timer: ["supply", "fail"],
  external: ["supply", "fail"]
}

/**
 * Checks that a decision can answer a request.
 *
 * **Errors**
 *
 * - `DecisionNotApplicable` — the decision does not answer this kind of request, or a top-up is not above what was spent.
 * - `ArgumentsChanged` — the decision carries another digest than the request.
 * - `GrantRefused` — the decision carries a grant for a privileged tool or for a call that is always asked about, or a grant for the session
 *   on a sub-agent's request.
 */
export const check = (
  request: Interruption,
  decision: Decision
): Result.Result<void, DecisionNotApplicable | ArgumentsChanged | GrantRefused> => {
  const { requestId } = request
  const notApplicable = (allowed: ReadonlyArray<string>) =>
    Result.fail(
      new DecisionNotApplicable({ requestId, kind: request._tag, decision: decision._tag, allowed })
    )
  const allowed = applicable[request._tag]
  if (!allowed.includes(decision._tag)) return notApplicable(allowed)
  if (request._tag === "approval" && decision.digest !== undefined && decision.digest !== request.digest) {
    return Result.fail(new ArgumentsChanged({ requestId, expected: request.digest, actual: decision.digest }))
  }
  if (request._tag === "approval" && decision._tag === "approve" && decision.grant !== undefined) {
    const { agentPath, always, safety, tool } = request
    if (safety === "privileged") return Result.fail(new GrantRefused({ requestId, tool }))
    if (always !== undefined) return Result.fail(new GrantRefused({ requestId, tool, reason: "always" }))
    if (decision.grant.scope === "session" && agentPath.length > 1) {
      return Result.fail(new GrantRefused({ requestId, tool, reason: "subAgent" }))
    }
  }
  if (request._tag === "limit" && decision._tag === "topUp" && !isRoom(request, decision.limit)) {
    const { spent } = request
    return Result.fail(
      new DecisionNotApplicable({ requestId, kind: "limit", decision: "topUp", allowed, spent })
    )
  }
  return Result.void
}

/**
 * The refusal of a new decision with a grant that has expired, in which the time is probably wrong. Recorded decisions are not judged again: a
 * run may read them after the expiry, and earlier versions recorded such grants.
 */
export const expiredGrant = (request: Interruption, decision: Decision): GrantRefused | undefined => {
  const expiresAt = decision._tag === "approve" ? decision.grant?.expiresAt : undefined
  return request._tag === "approval" && expiresAt !== undefined && expiresAt <= decision.at
    ? new GrantRefused({ requestId: request.requestId, tool: request.tool, reason: "expired" })
    : undefined
}

/** Whether a top-up leaves room. All budgets except money are whole numbers. */
const isRoom = (request: LimitRequest, limit: number): boolean =>
  limit > request.spent && (request.budget === "cost" || Number.isSafeInteger(limit))

/**
 * The decision of an expired request. It depends on the request alone, so every process computes the same one. A started call
 * cannot be denied, so a call in doubt and an external call are recorded as failed. A timer ends as planned.
 */
export const expiryDecision = (request: Interruption): Decision => {
  const at = request.expiresAt ?? request.at
  if (request._tag === "timer") {
    const result = `The wait is over: it is ${new Date(at).toISOString()} or later.`
    return { _tag: "supply", requestId: request.requestId, by: "expiry", at, result }
  }
  const before = new Date(at).toISOString()
  if (request._tag === "external") {
    const message = `This call was started, and its result did not come before ${before}.`
    return { _tag: "fail", requestId: request.requestId, by: "expiry", at, message }
  }
  const message = `Nobody decided before ${before}.`
  return {
    _tag: request._tag === "inDoubt" ? "fail" : "deny",
    requestId: request.requestId,
    by: "expiry",
    at,
    message
  }
}

/** The expiry decision of an open request that has expired by `now`; `undefined` if it has not. */
export const expiryAt = (request: Interruption, now: Timestamp): Decision | undefined =>
  isExpired(request, now) ? expiryDecision(request) : undefined
