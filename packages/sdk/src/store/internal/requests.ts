/**
 * The rules of requests and decisions: how events change the inbox, and which decision counts.
 *
 * The functions are pure and shared by the memory store and the SQL store.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { endedReason } from "../../domain/decide.ts"
import type { Decision, DecisionToRecord } from "../../domain/Decision.ts"
import { childRunId, isWithin, type RequestId, type RunId, type Timestamp } from "../../domain/Id.ts"
import { decodeRecord } from "../../domain/internal/given.ts"
import {
  expiredGrant,
  expiryAt,
  judgeDecision,
  type Standing,
  type Verdict
} from "../../domain/internal/judgeDecision.ts"
import { type Interruption, tokenOf } from "../../domain/Interruption.ts"
import {
  type DecisionMalformed,
  RequestNotFound,
  RequestSuperseded,
  type Rejection
} from "../../domain/Rejection.ts"
import { unwrap, type RunEvent } from "../../domain/RunEvent.ts"
import type { Status } from "../../domain/RunState.ts"
import type { PendingRequest } from "../RunStorePort.ts"

/** A change of the inbox by an event of the run or of a sub-agent in it. */
export type InboxChange =
  | { readonly _tag: "opened"; readonly request: Interruption }
  | { readonly _tag: "decided"; readonly decision: Decision }
  | {
      readonly _tag: "superseded"
      readonly requestId: RequestId
      readonly reason: string
      readonly by?: RequestId
      /** Whether the request is closed even if it has a decision: its run ended, opened another request instead, or read the decision too late. */
      readonly isFinal: boolean
    }
  | { readonly _tag: "reopened" }
  | { readonly _tag: "warned"; readonly requestId: RequestId }

/** The changes of the inbox by a batch of events, in order. Most batches change nothing. */
export const inboxChanges = (events: ReadonlyArray<RunEvent>): ReadonlyArray<InboxChange> => {
  const changes: Array<InboxChange> = []
  for (const wrapped of events) {
    const event = wrapped._tag === "child.advanced" ? unwrap(wrapped).event : wrapped
    if (event._tag === "request.opened") changes.push({ _tag: "opened", request: event.request })
    else if (event._tag === "request.decided") changes.push({ _tag: "decided", decision: event.decision })
    else if (wrapped._tag === "run.resumed") changes.push({ _tag: "reopened" })
    else if (event._tag === "request.expiring") changes.push({ _tag: "warned", requestId: event.requestId })
    else if (event._tag === "request.superseded") {
      const { by, reason, requestId } = event
      const isFinal = by !== undefined || reason === decidedTooLate || isEndedBy(events, requestId)
      changes.push({ _tag: "superseded", requestId, reason, isFinal, ...(by === undefined ? {} : { by }) })
    }
  }
  return changes
}

/** Whether a change adds a time at which the run becomes ready by itself. */
export const isDue = (change: InboxChange): boolean =>
  change._tag === "warned" || (change._tag === "opened" && change.request.expiresAt !== undefined)

/** Whether events end the run itself, and not only a sub-agent in it. */
export const areEnding = (events: ReadonlyArray<RunEvent>): boolean => events.some(isEnd)

const isEnd = ({ _tag }: RunEvent): boolean =>
  _tag === "run.cancelled" || _tag === "run.completed" || _tag === "run.failed"

/** Whether a change records the decision of a request: as applied, or as read too late. */
export const isRecording = (change: InboxChange, requestId: RequestId): boolean =>
  change._tag === "decided"
    ? change.decision.requestId === requestId
    : change._tag === "superseded" && change.requestId === requestId && change.reason === decidedTooLate

/** The stored reason of a request whose decision the run has read when no call waited for it. */
export const decidedTooLate = "it was decided when it no longer waited"

/** Whether events end the run of a request, or a run that contains it. */
const isEndedBy = (events: ReadonlyArray<RunEvent>, requestId: RequestId): boolean =>
  events.some((wrapped) => {
    const { event, path } = unwrap(wrapped)
    if (!isEnd(event)) return false
    const callId = path.at(-1)
    return callId === undefined || isWithin(requestId, childRunId(callId))
  })

/**
 * The refusal of a decision on a run that is being cancelled. `ending` lists the runs whose cancellation was acknowledged; sub-agents of
 * these runs end with them.
 */
export const endingRefusal = (
  requestId: RequestId,
  ending: ReadonlyArray<string>
): RequestSuperseded | undefined => {
  const runId = ending.find((id) => isWithin(requestId, id as RunId))
  return runId === undefined
    ? undefined
    : new RequestSuperseded({ requestId, reason: `the run ${runId} is being cancelled` })
}

/**
 * The status of a request. `open`: it waits for a decision. `decided`: the journal does not contain the decision yet. `journaled`: it does.
 * `superseded`: the request was closed without a decision that counts, by a message or the end of its run, for example.
 */
export const RequestStatus = Schema.Literals(["open", "decided", "journaled", "superseded"])
export type RequestStatus = typeof RequestStatus.Type

/** A request with its status, decision and reason of closing. */
export interface RequestEntry {
  readonly request: Interruption
  readonly status: RequestStatus
  readonly decision?: Decision
  readonly superseded?: { readonly reason: string; readonly by?: RequestId }
  /** Set when the journal contains the warning that the request will expire soon. */
  readonly warned?: boolean
}

/** The decision that counts at `now`, which may be one by expiry, or `undefined`. */
export const decisionOf = (entry: RequestEntry, now: Timestamp): Decision | undefined =>
  (entry.status === "open" ? expiryAt(entry.request, now) : undefined) ?? entry.decision

/** The requests among these that a token names, with the decisions that count at `now`. */
export const named = (
  found: ReadonlyArray<{ readonly pending: PendingRequest; readonly entry: RequestEntry }>,
  token: string,
  now: Timestamp
) =>
  found.flatMap(({ entry, pending }) => {
    const decision = decisionOf(entry, now)
    return tokenOf(pending.request) === token
      ? [{ ...pending, ...(decision === undefined ? {} : { decision }) }]
      : []
  })

/** Judges a decision on a request at `now`. */
export const judgeEntry = (entry: RequestEntry, decision: Decision, now: Timestamp): Verdict => {
  const verdict = judgeDecision(entry.request, standingOf(entry), decision, now)
  const refusal = verdict.record === decision ? expiredGrant(entry.request, decision) : undefined
  return refusal === undefined ? verdict : { refusal }
}

const standingOf = ({ decision, status, superseded }: RequestEntry): Standing => {
  if (status === "superseded") {
    const reason = isFailedWith(superseded)
      ? endedReason("error")
      : (superseded?.reason ?? "it was withdrawn")
    return { _tag: "closed", reason, by: superseded?.by }
  }
  return decision === undefined ? { _tag: "open" } : { _tag: "decided", decision }
}

/** An accepted decision of a batch. */
export interface Taken<Found> {
  readonly found: Found
  /** The decision that counts: the given one, or the recorded one that it repeats. */
  readonly decision: Decision
  /** Whether the store has to record it. */
  readonly isNew: boolean
}

/** Judges several decisions, each as if the preceding ones were recorded. Fails with the first refusal. */
export const judgeAll = <Found extends { readonly entry: RequestEntry }>(
  decisions: ReadonlyArray<Decision>,
  find: (requestId: RequestId) => Found | undefined,
  now: Timestamp
): Result.Result<ReadonlyArray<Taken<Found>>, Rejection> => {
  const taken: Array<Taken<Found>> = []
  const entries = new Map<RequestId, RequestEntry>()
  for (const decision of decisions) {
    const { requestId } = decision
    const found = find(requestId)
    if (found === undefined) return Result.fail(new RequestNotFound({ requestId }))
    const entry = entries.get(requestId) ?? found.entry
    const { first, record, refusal } = judgeEntry(entry, decision, now)
    if (refusal !== undefined) return Result.fail(refusal)
    taken.push({ found, decision: first ?? decision, isNew: record !== undefined })
    if (record !== undefined) entries.set(requestId, { ...entry, status: "decided", decision: record })
  }
  return Result.succeed(taken)
}

/** Decodes the decisions of a caller. Fails if one of them is malformed. */
export const decodeInputs = (
  inputs: ReadonlyArray<DecisionToRecord>,
  now: Timestamp
): Result.Result<ReadonlyArray<Decision>, DecisionMalformed> =>
  Result.all(inputs.map((input) => decodeRecord(input, now)))

/** Sorts decisions by time, then by request id. */
export const oldestFirst = (decisions: ReadonlyArray<Decision>): ReadonlyArray<Decision> =>
  decisions.toSorted((a, b) => a.at - b.at || (a.requestId < b.requestId ? -1 : 1))

/** Whether a cancellation request can still take effect. A failed run can be resumed, and is cancelled then. */
export const isCancellable = (status: Status): boolean => status !== "completed" && status !== "cancelled"

/** Whether a run with this status has not ended. */
export const isGoing = (status: Status): boolean => status === "running" || status === "held"

/** The reason with which a run's open requests are closed at this status; `undefined` if the run has not ended. */
export const closingReason = (status: Status): string | undefined =>
  isGoing(status) ? undefined : status === "error" ? failedReason : `the run is ${status}`

/** The stored reason of requests that were closed because their run failed. They open again when the run is resumed. */
export const failedReason = "the run is error"

/** Whether a request was closed only because its run failed. */
export const isFailedWith = (superseded: RequestEntry["superseded"]): boolean =>
  superseded?.reason === failedReason && superseded.by === undefined
