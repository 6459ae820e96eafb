/**
 * Applies decisions to a state, purely: returns either the events of a decision or a typed rejection.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import type { Decision } from "./Decision.ts"
import { type GrantId, grantId, type RequestId, type Timestamp, type ToolCallId } from "./Id.ts"
import { expiryAt, judgeDecision, type Standing } from "./internal/judgeDecision.ts"
import { warnAt } from "./Interruption.ts"
import { type Rejection, RequestNotFound } from "./Rejection.ts"
import { type RunEvent, wrap } from "./RunEvent.ts"
import type { RequestRecord, RunState } from "./RunState.ts"
import {
  answerable,
  findCall,
  findChild,
  findRequest,
  interruptions,
  isEnded,
  isSettled
} from "./RunState.ts"

export { asSent, check, expiryDecision, isRepeated } from "./internal/judgeDecision.ts"

/**
 * Returns the events of a decision that is made at `now`, or its rejection. A decision that repeats the recorded one, with its
 * idempotency key, has no events.
 *
 * **Details**
 *
 * An open request that has expired by `now` refuses every decision: the rejection holds its {@link expiryDecision}, even if the state does
 * not hold that decision yet. To record that decision, pass it to {@link decide}. A decision that was recorded earlier stands. Stores
 * apply the same rule.
 *
 * **Errors**
 *
 * - `AlreadyDecided` — the request is open and has expired.
 * - The errors of {@link decide}.
 */
export const decideAt = (
  state: RunState,
  decision: Decision,
  now: Timestamp
): Result.Result<ReadonlyArray<RunEvent>, Rejection> => {
  const { requestId } = decision
  const found = findRequest(state, requestId)
  if (found === undefined) return Result.fail(new RequestNotFound({ requestId }))
  const { first, refusal } = judgeDecision(found.record.request, standingOf(state, found), decision, now)
  if (refusal !== undefined) return Result.fail(refusal)
  return Result.succeed(
    first === undefined
      ? [
          wrap(
            {
              _tag: "request.decided",
              at: decision.at,
              decision,
              ...keptBy(decision),
              ...informing(decision)
            },
            found.path
          )
        ]
      : []
  )
}

/** The expiry decision of a request; `undefined` if the request has not expired by `now`, is not open in this state, or is not in it. */
export const expiryOf = (state: RunState, requestId: RequestId, now: Timestamp): Decision | undefined => {
  const found = findRequest(state, requestId)
  return found !== undefined && standingOf(state, found)._tag === "open"
    ? expiryAt(found.record.request, now)
    : undefined
}

/**
 * The expiry decisions of all requests that are open and have expired by `now`, of a run and of its sub-agents. Requests of a stopped run,
 * and of the sub-agents in it, are left out.
 */
export const expiries = (state: RunState, now: Timestamp): ReadonlyArray<Decision> =>
  answerable(state).flatMap((request) => expiryAt(request, now) ?? [])

/**
 * The events which announce that open requests of a run and of its sub-agents will expire soon: one for each request whose announcement is
 * due at `at` and not recorded yet. Fold the decisions of {@link expiries} before, so that an expired request is not announced.
 */
export const expiryWarnings = (state: RunState, at: Timestamp): ReadonlyArray<RunEvent> =>
  interruptions(state).flatMap((request) => {
    const { requestId } = request
    if ((warnAt(request) ?? Infinity) > at) return []
    const found = findRequest(state, requestId)
    if (found === undefined || found.record.warnedAt !== undefined) return []
    return [wrap({ _tag: "request.expiring", at, requestId }, found.path)]
  })

/**
 * The earliest time at which an open request of a run or of its sub-agents expires, or has to be announced to expire soon; `undefined` if
 * there is none. Requests of a stopped run, and of the sub-agents in it, are left out.
 */
export const nextDeadline = (state: RunState): Timestamp | undefined => {
  const times = answerable(state).flatMap((request) => {
    const { expiresAt, onExpiry, requestId } = request
    if (expiresAt === undefined || onExpiry === "stay") return []
    const warning = warnAt(request)
    const isAnnounced = findRequest(state, requestId)?.record.warnedAt !== undefined
    return [warning === undefined || isAnnounced ? expiresAt : warning]
  })
  return times.length === 0 ? undefined : Math.min(...times)
}

/**
 * Returns the events of a decision, or its rejection. Ignores expiry; for a new decision use {@link decideAt}.
 *
 * **Errors**
 *
 * - `RequestNotFound` — this run and its sub-agents have no such request.
 * - `AlreadyDecided` — another decision was first and stands; it is in the error.
 * - `RequestSuperseded` — the request was closed without a decision, for example because the run ended or another request replaced it.
 * - `DecisionNotApplicable`, `ArgumentsChanged`, `GrantRefused` — see {@link check}.
 */
export const decide = (
  state: RunState,
  decision: Decision
): Result.Result<ReadonlyArray<RunEvent>, Rejection> => decideAt(state, decision, Number.NEGATIVE_INFINITY)

/** The standing of a request of a run, or of a sub-agent in it. */
const standingOf = (
  state: RunState,
  { path, record }: { readonly path: ReadonlyArray<ToolCallId>; readonly record: RequestRecord }
): Standing => {
  const { decision, superseded } = record
  if (decision !== undefined) return { _tag: "decided", decision }
  const reason = superseded?.reason ?? endOf(state, path)
  return reason === undefined
    ? { _tag: "open" }
    : { _tag: "closed", reason, by: superseded?.by as RequestId | undefined }
}

const keptBy = (decision: Decision): { readonly kept?: GrantId } =>
  decision._tag === "approve" && decision.grant !== undefined ? { kept: grantId(decision.requestId) } : {}

/** Marks a decision of which the model is informed beside its effect: an edit, or a denial with a note. */
const informing = (decision: Decision): { readonly informs?: true } => {
  const said =
    decision._tag === "approve" ? decision.arguments : decision._tag === "deny" ? decision.note : undefined
  return said === undefined ? {} : { informs: true }
}

/** Why a request of an ended run cannot be decided. A failed run has to be resumed first, which opens its requests again. */
export const endedReason = (status: RunState["status"]): string =>
  status === "error" ? "the run has failed: resume it first" : `the run is ${status}`

/** Why a request at the end of `path` is closed, because the run or a sub-agent on the path has ended; `undefined` if none has. */
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
