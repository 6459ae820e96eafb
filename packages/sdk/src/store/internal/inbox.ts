/**
 * The requests of one run in memory: how a batch of events changes them, and whether they meet a filter.
 */
import * as Result from "effect/Result"
import type { Decision } from "../../domain/Decision.ts"
import { isWithin, lineOf, type RequestId, type Timestamp } from "../../domain/Id.ts"
import { sameDecision } from "../../domain/internal/judgeDecision.ts"
import { isExpired, type Kind, toolOf, warnAt } from "../../domain/Interruption.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { PendingFilter, PendingRequest, ReadyRun } from "../RunStorePort.ts"
import {
  areEnding,
  decisionOf,
  isFailedWith,
  isRecording,
  oldestFirst,
  inboxChanges,
  type RequestEntry
} from "./requests.ts"

/** The requests of a run by id, in the order in which they were opened. */
export type Inbox = ReadonlyMap<RequestId, RequestEntry>

/** Applies a batch of events to the requests. Fails with the id of a request whose stored decision the events contradict. */
export const inboxAfter = (
  inbox: Inbox,
  events: ReadonlyArray<RunEvent>
): Result.Result<Inbox, RequestId> => {
  const changes = inboxChanges(events)
  if (changes.length === 0) return Result.succeed(inbox)
  const next = new Map(inbox)
  for (const change of changes) {
    if (change._tag === "opened") {
      next.set(change.request.requestId, { request: change.request, status: "open" })
      continue
    }
    if (change._tag === "reopened") {
      for (const [requestId, entry] of next) {
        const { superseded, ...rest } = entry
        if (entry.status === "superseded" && isFailedWith(superseded))
          next.set(requestId, { ...rest, status: "open" })
      }
      continue
    }
    const requestId = change._tag === "decided" ? change.decision.requestId : change.requestId
    const entry = next.get(requestId)
    if (entry === undefined) continue
    if (change._tag === "warned") {
      next.set(requestId, { ...entry, warned: true })
    } else if (change._tag === "superseded") {
      if (entry.status === "journaled") continue
      const { by, isFinal, reason } = change
      if (entry.status === "decided" && !isFinal) return Result.fail(requestId)
      const superseded = { reason, ...(by === undefined ? {} : { by }) }
      next.set(requestId, { ...entry, status: "superseded", superseded })
    } else if (entry.decision === undefined || sameDecision(entry.decision, change.decision)) {
      if (entry.status === "superseded") continue
      next.set(requestId, { ...entry, status: "journaled", decision: change.decision })
    } else {
      return Result.fail(requestId)
    }
  }
  return Result.succeed(next)
}

/** Closes the open requests of a run that ended. */
export const closed = (inbox: Inbox, reason: string): Inbox =>
  new Map(
    Array.from(inbox, ([requestId, entry]) => [
      requestId,
      entry.status === "open" ? { ...entry, status: "superseded", superseded: { reason } } : entry
    ])
  )

/** The decisions in force at `now` that the journal does not contain yet, including those by expiry. */
export const undelivered = (inbox: Inbox, now: Timestamp): ReadonlyArray<Decision> =>
  oldestFirst(
    Array.from(inbox.values()).flatMap((entry) => {
      const decision =
        entry.status === "open" || entry.status === "decided" ? decisionOf(entry, now) : undefined
      return decision === undefined ? [] : [decision]
    })
  )

/** Whether there is a recorded decision that the journal does not contain yet. */
export const hasDecided = (inbox: Inbox): boolean =>
  Array.from(inbox.values()).some(({ status }) => status === "decided")

/** Whether events end the run and omit a recorded decision. Such events must not be appended. */
export const endsUnread = (inbox: Inbox, events: ReadonlyArray<RunEvent>): boolean => {
  if (!areEnding(events) || !hasDecided(inbox)) return false
  const changes = inboxChanges(events)
  return Array.from(inbox).some(
    ([requestId, { status }]) =>
      status === "decided" && !changes.some((change) => isRecording(change, requestId))
  )
}

/** Why a held run is ready, and since when. */
export interface Readiness {
  readonly reason: ReadyRun["reason"]
  readonly at: Timestamp
}

/** The reason in its requests for which a held run is ready, or `undefined`. */
export const readiness = (inbox: Inbox, now: Timestamp): Readiness | undefined => {
  const entries = Array.from(inbox.values())
  const open = entries.filter(({ status }) => status === "open")
  const decided = entries.flatMap(({ decision, status }) => (status === "decided" ? (decision?.at ?? 0) : []))
  const expired = open.flatMap(({ request }) => (isExpired(request, now) ? (request.expiresAt ?? 0) : []))
  const due = open.flatMap(({ request, warned }) => (warned === true ? [] : (warnAt(request) ?? [])))
  return (
    firstOf("decided", decided) ??
    firstOf("expired", expired) ??
    firstOf(
      "expiring",
      due.filter((at) => at <= now)
    )
  )
}

/** The earliest time after `after` at which an open request expires, or is announced; `undefined` if there is none. */
export const nextDueIn = (inbox: Inbox, after: Timestamp): Timestamp | undefined => {
  let due: Timestamp | undefined
  for (const { request, status, warned } of inbox.values()) {
    if (status !== "open" || request.onExpiry === "stay") continue
    const at = (warned === true ? undefined : warnAt(request)) ?? request.expiresAt
    if (at !== undefined && at > after && at < (due ?? Infinity)) due = at
  }
  return due
}

const firstOf = (reason: Readiness["reason"], times: ReadonlyArray<Timestamp>): Readiness | undefined =>
  times.length === 0 ? undefined : { reason, at: Math.min(...times) }

/** The kinds that a filter selects. */
export const kindsOf = (kind: NonNullable<PendingFilter["kind"]>): ReadonlyArray<Kind> =>
  typeof kind === "string" ? [kind] : kind

/** Whether an open request meets a filter. */
export const matches = (pending: PendingRequest, filter: PendingFilter, now: Timestamp): boolean => {
  const { request } = pending
  if (filter.expiresBefore === undefined) {
    if (isExpired(request, now)) return false
  } else if (request.expiresAt === undefined || request.expiresAt >= filter.expiresBefore) {
    return false
  }
  return (
    (filter.runId === undefined ||
      (pending.runId === lineOf(filter.runId).root && isWithin(request.requestId, filter.runId))) &&
    (filter.sessionId === undefined || pending.sessionId === filter.sessionId) &&
    (filter.kind === undefined || kindsOf(filter.kind).includes(request._tag)) &&
    (filter.tool === undefined || toolOf(request) === filter.tool) &&
    (filter.agent === undefined || request.agentPath.includes(filter.agent)) &&
    (filter.askedBefore === undefined || request.at < filter.askedBefore)
  )
}

/** The order of the inbox: oldest first, then by id. */
export const byAge = (a: PendingRequest, b: PendingRequest): number =>
  a.request.at - b.request.at ||
  (a.request.requestId < b.request.requestId ? -1 : a.request.requestId === b.request.requestId ? 0 : 1)
