/**
 * One run as the memory store keeps it, changed in place.
 */
import type * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import type { Revision, RunId, SessionId, Timestamp } from "../../domain/Id.ts"
import { SessionBusy } from "../../domain/RunError.ts"
import { version } from "../../domain/RunEvent.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { Status } from "../../domain/RunState.ts"
import { encodeEvents } from "../../domain/RunStateCodec.ts"
import type { Lease, PendingRequest, ReadyRun, RunHead, RunStore } from "../RunStore.ts"
import { leaseMs } from "./bounds.ts"
import { afterEvents, closed, type Inbox, readiness } from "./inbox.ts"
import type { Batch } from "./journal.ts"
import { closingReason, type RequestEntry } from "./requests.ts"

/** A run, its journal and its requests. */
export interface Run {
  readonly runId: RunId
  readonly sessionId: SessionId
  readonly agent: string
  readonly parent?: { readonly runId: RunId; readonly revision: Revision }
  readonly createdAt: Timestamp
  readonly batches: Array<Batch>
  updatedAt: Timestamp
  status: Status
  revision: number
  owner: string | undefined
  leaseUntil: Timestamp
  epoch: number
  cancelReason: string | undefined
  inbox: Inbox
}

/** Appends events that leave the run in this state, with these requests. */
export const write = (
  run: Run,
  events: ReadonlyArray<RunEvent>,
  status: Status,
  inbox: Inbox,
  now: Timestamp
): void => {
  const text = encodeEvents(events)
  run.batches.push({ runId: run.runId, sequence: run.revision, count: events.length, version, text })
  run.revision += events.length
  run.status = status
  run.updatedAt = now
  const reason = closingReason(status)
  run.inbox = reason === undefined ? inbox : closed(inbox, reason)
}

/** A run with its first events, which nobody works on and which is not kept yet; or the one that has its place. */
export const begin = (
  given: Parameters<RunStore["Service"]["restore"]>[0][number],
  others: Iterable<Run>,
  now: Timestamp
): Result.Result<Run, SessionBusy> => {
  const { agent, events, parent, runId, sessionId, status } = given
  for (const other of others) {
    if (other.sessionId !== sessionId || other.parent?.runId !== parent?.runId) continue
    return Result.fail(new SessionBusy({ sessionId, runId: other.runId, status: other.status }))
  }
  const run: Run = {
    runId,
    sessionId,
    agent,
    ...(parent === undefined ? {} : { parent }),
    createdAt: now,
    batches: [],
    updatedAt: now,
    status,
    revision: 0,
    owner: undefined,
    leaseUntil: 0,
    epoch: 0,
    cancelReason: undefined,
    inbox: new Map()
  }
  const inbox = Result.getOrElse(afterEvents(run.inbox, events), () => run.inbox)
  write(run, events, status, inbox, now)
  return Result.succeed(run)
}

/** Gives a run to somebody, whoever had it. */
export const leaseTo = (run: Run, owner: string, ttl: Duration.Input, now: Timestamp): Lease => {
  const until = now + leaseMs(ttl)
  run.owner = owner
  run.epoch += 1
  run.leaseUntil = until
  return { runId: run.runId, owner, epoch: run.epoch, until }
}

/** A request as whoever looks for it sees it. */
export const pendingOf = (run: Run, entry: RequestEntry): PendingRequest => ({
  request: entry.request,
  runId: run.runId,
  sessionId: run.sessionId,
  agent: run.agent
})

/** Why somebody is needed; `undefined` when nobody is. */
export const reasonOf = (run: Run, now: Timestamp): ReadyRun["reason"] | undefined => {
  if (run.owner !== undefined && run.leaseUntil > now) return undefined
  if (run.status === "running") return "orphaned"
  if (run.status !== "held") return undefined
  return run.cancelReason === undefined ? readiness(run.inbox, now) : "cancelled"
}

/** What tells who works on it that it is to be cancelled. */
export const cancelOf = (run: Run) =>
  run.cancelReason === undefined ? {} : { cancelReason: run.cancelReason }

/** What there is to know of a run besides its events. */
export const headOf = (run: Run, now: Timestamp): RunHead => ({
  runId: run.runId,
  sessionId: run.sessionId,
  agent: run.agent,
  status: run.status,
  revision: run.revision as Revision,
  ...(run.parent === undefined ? {} : { parent: run.parent }),
  createdAt: run.createdAt,
  updatedAt: run.updatedAt,
  ...(run.owner === undefined || run.leaseUntil <= now
    ? {}
    : { lease: { owner: run.owner, until: run.leaseUntil } })
})

/** The order of `ready`. */
export const untouchedFirst = (a: Run, b: Run): number =>
  a.updatedAt - b.updatedAt || (a.runId < b.runId ? -1 : a.runId === b.runId ? 0 : 1)

/** The order of `list`. */
export const newestFirst = (a: Run, b: Run): number =>
  b.createdAt - a.createdAt || (a.runId < b.runId ? 1 : -1)
