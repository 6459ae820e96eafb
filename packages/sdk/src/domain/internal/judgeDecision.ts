/**
 * The rule by which a decision is taken or refused, for the state of a run and for the inbox of every store.
 *
 * The order is a promise: a closed request refuses every decision, the first decision stands, time decides before a decision that comes
 * late, and only then must the decision fit the request.
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

/** How a request stands, by the state of its run or by the inbox of a store. */
export type Standing =
  | { readonly _tag: "open" }
  /** The decision on record. */
  | { readonly _tag: "decided"; readonly decision: Decision }
  /** No decision can count any more; `by` is the request that is asked instead. */
  | { readonly _tag: "closed"; readonly reason: string; readonly by?: RequestId | undefined }

/** What to do with a decision: record it, refuse it (and record the expiry that came before it), or repeat the first answer. */
export interface Verdict {
  readonly record?: Decision
  readonly refusal?: Rejection
  /** The decision on record, which this one repeats. */
  readonly first?: Decision
}

/** Judges a decision about a request as it stands at `now`. */
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

/** The parts of a decision that its caller chose: without the digest that the caller looked at, and the schema that the runtime found. */
export const asSent = (given: Decision): Decision => {
  const { digest: _, ...decision } = given
  if (decision._tag !== "approve") return decision
  const { schema: __, ...approval } = decision
  return approval
}

/** Whether a decision is one on record that is sent again: the same in everything, with the same key. */
export const isRepeated = (recorded: Decision, decision: Decision): boolean =>
  recorded.idempotencyKey !== undefined &&
  // A digest only says what was looked at; a repeated decision may have it or not.
  sameDecision(asSent(recorded), { ...asSent(decision), at: recorded.at })

/** Which decisions answer which kind of request. */
const applicable: { readonly [K in Kind]: ReadonlyArray<Decision["_tag"]> } = {
  approval: ["approve", "deny", "supply"],
  question: ["answer", "deny"],
  inDoubt: ["retry", "supply", "fail"],
  limit: ["topUp", "deny"],
  login: ["retry", "deny"]
}

/**
 * Whether this decision can answer this request.
 *
 * **Errors**
 *
 * - `DecisionNotApplicable` — another kind of request, or a top-up that leaves no room.
 * - `ArgumentsChanged` — the decision was made about other arguments.
 * - `GrantRefused` — a privileged tool cannot be granted for more than one call, nor a sub-agent's for more than its run.
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
    const { agentPath, safety, tool } = request
    if (safety === "privileged") return Result.fail(new GrantRefused({ requestId, tool }))
    if (decision.grant.scope === "session" && agentPath.length > 1) {
      return Result.fail(new GrantRefused({ requestId, tool, reason: "subAgent" }))
    }
  }
  if (request._tag === "limit" && decision._tag === "topUp" && !isRoom(request, decision.limit)) {
    const amount = request.budget === "cost" ? "limit" : "whole number"
    return notApplicable([`topUp with a ${amount} above ${request.spent}`])
  }
  return Result.void
}

/** Every budget but money is counted in whole numbers. */
const isRoom = (request: LimitRequest, limit: number): boolean =>
  limit > request.spent && (request.budget === "cost" || Number.isSafeInteger(limit))

/**
 * The decision that time takes. It is made of the request alone, so that everybody who works it out comes to the same one. A
 * call in doubt cannot be denied, so it is recorded as failed.
 */
export const expiryDecision = (request: Interruption): Decision => {
  const at = request.expiresAt ?? request.at
  const message = `Nobody decided before ${new Date(at).toISOString()}.`
  return {
    _tag: request._tag === "inDoubt" ? "fail" : "deny",
    requestId: request.requestId,
    by: "expiry",
    at,
    message
  }
}

/** The decision that time has taken by `now` about an open request. */
export const expiryAt = (request: Interruption, now: Timestamp): Decision | undefined =>
  isExpired(request, now) ? expiryDecision(request) : undefined
