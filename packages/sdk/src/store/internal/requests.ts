/**
 * Requests and decisions as every store keeps them: what events do to the inbox, and which decision counts.
 *
 * Pure, so that the memory store and the SQL store cannot come to differ.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { endedReason } from "../../domain/decide.ts"
import { Decision, type DecisionInput } from "../../domain/Decision.ts"
import { childRunId, isWithin, RequestId, type RunId, type Timestamp } from "../../domain/Id.ts"
import { decisionMisfits, problemsOf } from "../../domain/internal/given.ts"
import { copyJson, isDeeperThan, maxGivenDepth } from "../../domain/internal/json.ts"
import { expiryAt, judge, type Standing, type Verdict } from "../../domain/internal/judge.ts"
import { kindOf, readOnce } from "../../domain/internal/untyped.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import { attributeUnknown, misattribution } from "../../domain/Principal.ts"
import {
  DecisionMalformed,
  RequestNotFound,
  RequestSuperseded,
  type Rejection
} from "../../domain/Rejection.ts"
import { unwrap, type RunEvent } from "../../domain/RunEvent.ts"
import type { Status } from "../../domain/RunState.ts"

/** What an event, of the run itself or of a sub-agent inside it, does to the inbox. */
export type RequestChange =
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
export const requestChanges = (events: ReadonlyArray<RunEvent>): ReadonlyArray<RequestChange> => {
  const changes: Array<RequestChange> = []
  for (const wrapped of events) {
    const event = wrapped._tag === "child.advanced" ? unwrap(wrapped).event : wrapped
    if (event._tag === "request.opened") changes.push({ _tag: "opened", request: event.request })
    else if (event._tag === "request.decided") changes.push({ _tag: "decided", decision: event.decision })
    else if (wrapped._tag === "run.resumed") changes.push({ _tag: "reopened" })
    else if (event._tag === "request.expiring") changes.push({ _tag: "warned", requestId: event.requestId })
    else if (event._tag === "request.superseded") {
      const { by, reason, requestId } = event
      const isFinal = by !== undefined || reason === passedOver || isEndedBy(events, requestId)
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
export const isRecording = (change: RequestChange, requestId: RequestId): boolean =>
  change._tag === "decided"
    ? change.decision.requestId === requestId
    : change._tag === "superseded" && change.requestId === requestId && change.reason === passedOver

/** The reason on record for a decision that the run has read and that nothing in it waits for. */
export const passedOver = "it was decided when it no longer waited"

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
  /** It was told that the request will expire soon. */
  readonly warned?: boolean
}

/** The decision that counts at `now`, if there is one. */
export const decisionOf = (entry: RequestEntry, now: Timestamp): Decision | undefined =>
  (entry.status === "open" ? expiryAt(entry.request, now) : undefined) ?? entry.decision

/** Judges a decision about a request as it stands now. */
export const judgeEntry = (entry: RequestEntry, decision: Decision, now: Timestamp): Verdict =>
  judge(entry.request, standingOf(entry), decision, now)

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

const decode = Schema.decodeUnknownResult(Decision)

/** The decisions that a caller wrote; one that cannot be read refuses all of them. */
export const decodeInputs = (
  inputs: ReadonlyArray<DecisionInput>,
  now: Timestamp
): Result.Result<ReadonlyArray<Decision>, DecisionMalformed> =>
  Result.all(inputs.map((input) => decodeInput(input, now)))

/** The decision that a caller wrote, with the time it is recorded at. What is refused is not repeated. */
export const decodeInput = (
  given: DecisionInput,
  now: Timestamp
): Result.Result<Decision, DecisionMalformed> => {
  if (isDeeperThan(given, maxGivenDepth)) {
    return Result.fail(
      new DecisionMalformed({ issues: `it is nested more than ${maxGivenDepth} levels deep` })
    )
  }
  const input = readOnce(given)
  const found = decisionMisfits(input)
  if (found.length > 0) {
    return Result.fail(new DecisionMalformed({ issues: problemsOf(found), misfits: found }))
  }
  const own = copyOfInput(input)
  return Result.mapError(
    misattribution(input) === undefined
      ? decode({ ...(attributeUnknown(own) as object), at: own?.at ?? now })
      : Result.fail(undefined),
    () => new DecisionMalformed({ issues: complaint(input) })
  ).pipe(Result.flatMap((decision) => (own === input ? Result.fail(notPlain()) : Result.succeed(decision))))
}

/**
 * A copy of what a caller gave, so that nothing the caller does with it later changes what was decided; the input itself where it is
 * not plain data, which is no decision.
 */
export const copyOfInput = (input: DecisionInput): DecisionInput =>
  (copyJson(input) as DecisionInput | undefined) ?? input

export const notPlain = (): DecisionMalformed =>
  new DecisionMalformed({
    issues: "it holds a value that is no JSON, such as a date or an object of a class: give plain data"
  })

const kinds: ReadonlyArray<unknown> = Decision.members.map((member) => member.fields._tag.schema.literal)

const textFields = ["requestId", "by", "idempotencyKey", "note", "digest"] as const
type Texts = { readonly [Name in (typeof textFields)[number]]?: unknown }

const isRequestId = Schema.is(RequestId)

/** The text of a decision that is none, or what is wrong with who decides; `undefined` where all are as they have to be. */
export const wrongText = (input: DecisionInput): string | undefined => {
  const given = attributeUnknown(input) as DecisionInput & Texts
  const name = textFields.find((name) => name in given && typeof given[name] !== "string")
  return name === undefined
    ? misattribution(input)
    : `its ${name} is ${kindOf(given[name])}, and has to be a string${name === "by" ? " or a principal" : ""}`
}

const complaint = (input: DecisionInput): string => {
  if (typeof input !== "object" || input === null) return "it is not an object"
  if (!kinds.includes(input._tag)) return "it has no known _tag"
  if (input.requestId === undefined) return "it has no requestId"
  if (input.by === undefined) return "it does not say by whom"
  const wrong = wrongText(input)
  if (wrong !== undefined) return wrong
  if (!isRequestId(input.requestId)) return "its requestId is not one: list the pending requests"
  return `a field of ${input._tag} is missing or has another type`
}

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
