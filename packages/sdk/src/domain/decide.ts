/**
 * Taking a decision, purely: either the events that it means, or a typed refusal that changed nothing.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Decision } from "./Decision.ts"
import { type GrantId, grantId, type RequestId, type Timestamp, type ToolCallId } from "./Id.ts"
import { type Interruption, isExpired, type Kind, type LimitRequest } from "./Interruption.ts"
import type { Rejection } from "./Rejection.ts"
import {
  AlreadyDecided,
  ArgumentsChanged,
  DecisionNotApplicable,
  GrantRefused,
  RequestNotFound,
  RequestSuperseded
} from "./Rejection.ts"
import type { RunEvent } from "./RunEvent.ts"
import { wrap } from "./RunEvent.ts"
import type { RunState } from "./RunState.ts"
import { answerable, findCall, findChild, findRequest, isEnded, isOpen, isSettled } from "./RunState.ts"

/**
 * The events of a decision that is made at `now`, or why it is not taken.
 *
 * **Details**
 *
 * Time decides first. A request that expired has its {@link expiryDecision}, whether the state holds it yet or not, and a later decision
 * is refused with it. This is the rule of a store too.
 *
 * **Errors**
 *
 * - `AlreadyDecided` — the request expired before.
 * - Those of {@link decide}.
 */
export const decideAt = (
  state: RunState,
  decision: Decision,
  now: Timestamp
): Result.Result<ReadonlyArray<RunEvent>, Rejection> => {
  const expiry = expiryOf(state, decision.requestId, now)
  return expiry === undefined
    ? decide(state, decision)
    : Result.fail(
        new AlreadyDecided({
          requestId: decision.requestId,
          by: expiry.by,
          at: expiry.at,
          decision: expiry
        })
      )
}

/** The decision of time about a request that is still open in this state; `undefined` while there is none. */
export const expiryOf = (state: RunState, requestId: RequestId, now: Timestamp): Decision | undefined => {
  const found = findRequest(state, requestId)
  if (found === undefined || !isOpen(found.record) || endOf(state, found.path) !== undefined) return undefined
  return isExpired(found.record.request, now) ? expiryDecision(found.record.request) : undefined
}

/** What time has decided by `now` about the requests that a run still waits for. */
export const expiries = (state: RunState, now: Timestamp): ReadonlyArray<Decision> =>
  answerable(state).flatMap((request) => (isExpired(request, now) ? [expiryDecision(request)] : []))

/**
 * The events of a decision, or why it is not taken. Whether it came in time is not asked: see {@link decideAt} for a new one.
 *
 * **Errors**
 *
 * - `RequestNotFound` — no such request in this run or its sub-agents.
 * - `AlreadyDecided` — the first decision stands; it is in the error.
 * - `RequestSuperseded` — the run ended or asks anew.
 * - `DecisionNotApplicable`, `ArgumentsChanged`, `GrantRefused` — see {@link check}.
 */
export const decide = (
  state: RunState,
  decision: Decision
): Result.Result<ReadonlyArray<RunEvent>, Rejection> => {
  const found = findRequest(state, decision.requestId)
  if (found === undefined) return Result.fail(new RequestNotFound({ requestId: decision.requestId }))
  const { record, path } = found
  if (record.decision !== undefined) {
    if (isRepeated(record.decision, decision)) return Result.succeed([])
    return Result.fail(
      new AlreadyDecided({
        requestId: decision.requestId,
        by: record.decision.by,
        at: record.decision.at,
        decision: record.decision
      })
    )
  }
  const over = record.superseded?.reason ?? endOf(state, path)
  if (over !== undefined) {
    return Result.fail(
      new RequestSuperseded({
        requestId: decision.requestId,
        reason: over,
        ...(record.superseded?.by === undefined ? {} : { by: record.superseded.by as Decision["requestId"] })
      })
    )
  }
  const checked = check(record.request, decision)
  return Result.isFailure(checked)
    ? Result.fail(checked.failure)
    : Result.succeed([
        wrap({ _tag: "request.decided", at: decision.at, decision, ...keptBy(decision) }, path)
      ])
}

const keptBy = (decision: Decision): { readonly kept?: GrantId } =>
  decision._tag === "approve" && decision.grant !== undefined ? { kept: grantId(decision.requestId) } : {}

const same = (one: Decision, other: Decision): boolean => Schema.toEquivalence(Decision)(one, other)

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
  // A digest only says what was looked at; whoever sends it again may have it or not.
  same(asSent(recorded), { ...asSent(decision), at: recorded.at })

/** Why the requests of a run that ended are not decided. One that failed waits again once it is resumed. */
export const endedReason = (status: RunState["status"]): string =>
  status === "error" ? "the run has failed: resume it first" : `the run is ${status}`

/** Why nothing on the way to a sub-agent's request can be decided any more, or `undefined`. */
const endOf = (state: RunState, path: ReadonlyArray<ToolCallId>): string | undefined => {
  if (isEnded(state)) return endedReason(state.status)
  const [callId, ...rest] = path
  const call = callId === undefined ? undefined : findCall(state, callId)
  if (callId !== undefined && call?.child === undefined) {
    const child = findChild(state, callId)
    return child === undefined ? undefined : endOf(child, rest)
  }
  if (call?.child === undefined) return undefined
  return isSettled(call) ? `the run of ${call.child.agent.name} ended` : endOf(call.child, rest)
}

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
  if (!applicable[request._tag].includes(decision._tag)) {
    return Result.fail(
      new DecisionNotApplicable({
        requestId: request.requestId,
        kind: request._tag,
        decision: decision._tag,
        allowed: applicable[request._tag]
      })
    )
  }
  if (request._tag === "approval" && decision.digest !== undefined && decision.digest !== request.digest) {
    return Result.fail(
      new ArgumentsChanged({
        requestId: request.requestId,
        expected: request.digest,
        actual: decision.digest
      })
    )
  }
  if (request._tag === "approval" && decision._tag === "approve" && decision.grant !== undefined) {
    if (request.safety === "privileged") {
      return Result.fail(new GrantRefused({ requestId: request.requestId, tool: request.tool }))
    }
    if (decision.grant.scope === "session" && request.agentPath.length > 1) {
      const { requestId, tool } = request
      return Result.fail(new GrantRefused({ requestId, tool, reason: "subAgent" }))
    }
  }
  if (request._tag === "limit" && decision._tag === "topUp" && !isRoom(request, decision.limit)) {
    return Result.fail(
      new DecisionNotApplicable({
        requestId: request.requestId,
        kind: "limit",
        decision: "topUp",
        allowed: [
          `topUp with a ${request.budget === "cost" ? "limit" : "whole number"} above ${request.spent}`
        ]
      })
    )
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
