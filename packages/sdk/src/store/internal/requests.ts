/**
 * Requests and decisions as every store keeps them: what events do to the inbox, and which decision counts.
 *
 * Pure, so that the memory store and the SQL store cannot come to differ.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { endedReason } from "../../domain/decide.ts"
import type { Decision, DecisionInput } from "../../domain/Decision.ts"
import { childRunId, isWithin, type RequestId, type RunId, type Timestamp } from "../../domain/Id.ts"
import { decodeDecision } from "../../domain/internal/given.ts"
import { expiryAt, judgeDecision, type Standing, type Verdict } from "../../domain/internal/judgeDecision.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import {
  type DecisionMalformed,
  RequestNotFound,
  RequestSuperseded,
  type Rejection
} from "../../domain/Rejection.ts"
import { unwrap, type RunEvent } from "../../domain/RunEvent.ts"
import type { Status } from "../../domain/RunState.ts"

/** What an event, of the run itself or of a sub-agent inside it, does to the inbox. */
export type InboxChange =
  | { readonly _tag: "opened"; readonly request: Interruption }
  | { readonly _tag: "decided"; readonly decision: Decision }
  | {
      readonly _tag: "superseded"
      readonly requestId: RequestId
      readonly reason: string
      readonly by?: RequestId
      /** Whether a decision that was taken is passed over: the run that asked ended, asks again, or has read it and cannot apply it. */
      readonly isFinal: boolean
    }
  | { readonly _tag: "reopened" }
  | { readonly _tag: "warned"; readonly requestId: RequestId }

/** What a batch of events does to the inbox, in order. Most batches do nothing. */
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

/** Whether events end the run itself. Those that are appended to a run that has ended do not. */
export const areEnding = (events: ReadonlyArray<RunEvent>): boolean => events.some(isEnd)

const isEnd = ({ _tag }: RunEvent): boolean =>
  _tag === "run.cancelled" || _tag === "run.completed" || _tag === "run.failed"

/** Whether a change puts the decision of a request on record: taken, or read and passed over. */
export const isRecording = (change: InboxChange, requestId: RequestId): boolean =>
  change._tag === "decided"
    ? change.decision.requestId === requestId
    : change._tag === "superseded" && change.requestId === requestId && change.reason === decidedTooLate

/** The reason on record for a decision that the run has read and that nothing in it waits for. */
export const decidedTooLate = "it was decided when it no longer waited"

/** Whether events end the run of a request, or one that it lies in. */
const isEndedBy = (events: ReadonlyArray<RunEvent>, requestId: RequestId): boolean =>
  events.some((wrapped) => {
    const { event, path } = unwrap(wrapped)
    if (!isEnd(event)) return false
    const callId = path.at(-1)
    return callId === undefined || isWithin(requestId, childRunId(callId))
  })

/**
 * Why a decision comes too late for a run that is about to be cancelled: `ending` are the runs for which that was acknowledged, and a run
 * that lies in one of them ends with it.
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

/** `decided` is taken but not in the journal yet; `journaled` is in it. */
export const RequestStatus = Schema.Literals(["open", "decided", "journaled", "superseded"])
export type RequestStatus = typeof RequestStatus.Type

/** A request and what became of it. */
export interface RequestEntry {
  readonly request: Interruption
  readonly status: RequestStatus
  readonly decision?: Decision
  readonly superseded?: { readonly reason: string; readonly by?: RequestId }
  /** The warning that the request will expire soon was recorded. */
  readonly warned?: boolean
}

/** The decision that counts at `now`, if there is one. */
export const decisionOf = (entry: RequestEntry, now: Timestamp): Decision | undefined =>
  (entry.status === "open" ? expiryAt(entry.request, now) : undefined) ?? entry.decision

/** Judges a decision about a request as it stands now. */
export const judgeEntry = (entry: RequestEntry, decision: Decision, now: Timestamp): Verdict =>
  judgeDecision(entry.request, standingOf(entry), decision, now)

const standingOf = ({ decision, status, superseded }: RequestEntry): Standing => {
  if (status === "superseded") {
    const reason = isFailedWith(superseded)
      ? endedReason("error")
      : (superseded?.reason ?? "it was withdrawn")
    return { _tag: "closed", reason, by: superseded?.by }
  }
  return decision === undefined ? { _tag: "open" } : { _tag: "decided", decision }
}

/** A decision among several, and what it comes to. */
export interface Taken<Found> {
  readonly found: Found
  /** The one that counts: the decision itself, or the one on record that it repeats. */
  readonly decision: Decision
  /** Whether it has to be recorded. */
  readonly isNew: boolean
}

/** Judges several decisions, each as if those before it were recorded. The first refusal refuses all of them. */
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

/** The decisions that a caller wrote; one that cannot be read refuses all of them. */
export const decodeInputs = (
  inputs: ReadonlyArray<DecisionInput>,
  now: Timestamp
): Result.Result<ReadonlyArray<Decision>, DecisionMalformed> =>
  Result.all(inputs.map((input) => decodeInput(input, now)))

/** The decision that a caller wrote, with the time it is recorded at, unless that is known. */
export const decodeInput = (
  given: DecisionInput,
  now: Timestamp
): Result.Result<Decision, DecisionMalformed> =>
  decodeDecision(given, (fields) => ({ ...fields, at: fields.at ?? now }))

/** Decisions in the order in which they were taken; those of one moment in the order of their requests' ids, in every store. */
export const oldestFirst = (decisions: ReadonlyArray<Decision>): ReadonlyArray<Decision> =>
  decisions.toSorted((a, b) => a.at - b.at || (a.requestId < b.requestId ? -1 : 1))

/** Whether a request to cancel a run still has an effect: a run that failed can be resumed, and is cancelled then. */
export const isCancellable = (status: Status): boolean => status !== "completed" && status !== "cancelled"

/** Whether a run of this status has not ended. */
export const isGoing = (status: Status): boolean => status === "running" || status === "held"

/** Why a run's open requests are closed when it takes this status; `undefined` while it has not ended. */
export const closingReason = (status: Status): string | undefined =>
  isGoing(status) ? undefined : status === "error" ? failedReason : `the run is ${status}`

/** The reason with which the open requests of a run that fails are closed. They open again when it is resumed. */
export const failedReason = "the run is error"

/** Whether a request was closed by nothing but the failure of its run. */
export const isFailedWith = (superseded: RequestEntry["superseded"]): boolean =>
  superseded?.reason === failedReason && superseded.by === undefined
