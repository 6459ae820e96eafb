/**
 * Taking a decision, purely: either the events that it means, or a typed refusal that changed nothing.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import type { Decision } from "./Decision.ts"
import { type GrantId, grantId, type RequestId, type Timestamp, type ToolCallId } from "./Id.ts"
import { expiryAt, judgeDecision, type Standing } from "./internal/judgeDecision.ts"
import { type Rejection, RequestNotFound } from "./Rejection.ts"
import { type RunEvent, wrap } from "./RunEvent.ts"
import type { RequestRecord, RunState } from "./RunState.ts"
import { answerable, findCall, findChild, findRequest, isEnded, isSettled } from "./RunState.ts"

export { asSent, check, expiryDecision, isRepeated } from "./internal/judgeDecision.ts"

/**
 * The events of a decision that is made at `now`, or why it is not taken.
 *
 * **Details**
 *
 * Time decides first. A request that expired has its {@link expiryDecision}, whether the state holds it yet or not, and a later decision
 * is refused with it. A store judges by the same rule.
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
  const { requestId } = decision
  const found = findRequest(state, requestId)
  if (found === undefined) return Result.fail(new RequestNotFound({ requestId }))
  const { first, refusal } = judgeDecision(found.record.request, standingOf(state, found), decision, now)
  if (refusal !== undefined) return Result.fail(refusal)
  return Result.succeed(
    first === undefined
      ? [wrap({ _tag: "request.decided", at: decision.at, decision, ...keptBy(decision) }, found.path)]
      : []
  )
}

/** The decision of time about a request that is still open in this state; `undefined` while there is none. */
export const expiryOf = (state: RunState, requestId: RequestId, now: Timestamp): Decision | undefined => {
  const found = findRequest(state, requestId)
  return found !== undefined && standingOf(state, found)._tag === "open"
    ? expiryAt(found.record.request, now)
    : undefined
}

/** What time has decided by `now` about the requests that a run still waits for. */
export const expiries = (state: RunState, now: Timestamp): ReadonlyArray<Decision> =>
  answerable(state).flatMap((request) => expiryAt(request, now) ?? [])

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
): Result.Result<ReadonlyArray<RunEvent>, Rejection> => decideAt(state, decision, Number.NEGATIVE_INFINITY)

/** How a request of a run, or of a sub-agent in it, stands. */
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
