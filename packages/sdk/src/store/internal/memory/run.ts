/**
 * A run of the memory store. The functions change it in place.
 */
import type * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import type { Revision, Timestamp } from "../../../domain/Id.ts"
import { defined } from "../../../domain/internal/defined.ts"
import { SessionBusy } from "../../../domain/RunError.ts"
import { type RunEvent, version } from "../../../domain/RunEvent.ts"
import type { Status } from "../../../domain/RunState.ts"
import { encodeEvents } from "../../../domain/RunStateCodec.ts"
import type { Lease, PendingRequest, RunHead } from "../../RunStorePort.ts"
import { leaseMs } from "../bounds.ts"
import type { Copy } from "../copies.ts"
import { inboxAfter, closed, hasDecided, type Inbox } from "../inbox.ts"
import { answererIn, type Batch } from "../journal.ts"
import { mailAfter, type Mail, waiting } from "../messages.ts"
import { closingReason, isCancellable, type RequestEntry } from "../requests.ts"
import type { CheckpointEntry } from "./checkpoints.ts"

/** A run, its journal, its requests and its messages. */
export interface Run extends Pick<RunHead, "agent" | "parent" | "runId" | "sessionId"> {
  /** The preceding run of its own session; "" for the first run. */
  readonly follows: string
  createdAt: Timestamp
  readonly batches: Array<Batch>
  updatedAt: Timestamp
  /** Name of the agent that has the conversation. */
  answeredBy: string
  status: Status
  revision: number
  owner: string | undefined
  leaseUntil: Timestamp
  leaseMs: number
  epoch: number
  cancelReason: string | undefined
  inbox: Inbox
  mail: Mail
  checkpoint: CheckpointEntry | undefined
}

/** Appends events and sets the status, requests and messages after them. */
export const write = (
  run: Run,
  {
    events,
    inbox,
    mail,
    status
  }: Pick<Run, "inbox" | "mail" | "status"> & {
    readonly events: ReadonlyArray<RunEvent>
  },
  now: Timestamp
): void => {
  const text = encodeEvents(events)
  run.batches.push({ runId: run.runId, sequence: run.revision, count: events.length, version, text })
  run.revision += events.length
  run.status = status
  run.answeredBy = answererIn(events) ?? run.answeredBy
  run.updatedAt = now
  const reason = closingReason(status)
  run.inbox = reason === undefined ? inbox : closed(inbox, reason)
  run.mail = mail
}

/** Makes a run with its first events and without a lease, without storing it. Fails if another run has its position. */
export const begin = (
  given: Pick<Copy, "agent" | "events" | "parent" | "runId" | "sessionId" | "status"> & Partial<Copy>,
  others: ReadonlyArray<Run>,
  now: Timestamp
): Result.Result<Run, SessionBusy> => {
  const { agent, parent, runId, sessionId, status } = given
  const before = others.find((other) => other.runId === parent?.runId)
  const follows = before?.sessionId === sessionId ? before.runId : ""
  const other = others.find((other) => other.sessionId === sessionId && other.follows === follows)
  if (other !== undefined) {
    return Result.fail(new SessionBusy({ sessionId, runId: other.runId, status: other.status }))
  }
  const run: Run = {
    runId,
    sessionId,
    agent,
    answeredBy: agent,
    ...(parent === undefined ? {} : { parent: { runId: parent.runId, revision: parent.revision } }),
    follows,
    createdAt: now,
    batches: [],
    updatedAt: now,
    status,
    revision: 0,
    owner: undefined,
    leaseUntil: 0,
    leaseMs: 0,
    epoch: 0,
    cancelReason: undefined,
    inbox: new Map(),
    mail: new Map(),
    checkpoint: undefined
  }
  fill(run, given, now)
  return Result.succeed(run)
}

/** Replaces the journal and the mail of a run. */
export const fill = (
  run: Run,
  { cancelReason, decisions = [], events, messages = [], status }: Parameters<typeof begin>[0],
  now: Timestamp
): void => {
  const inbox = new Map(Result.getOrElse(inboxAfter(new Map(), events), () => new Map()))
  for (const decision of decisions) {
    const entry = inbox.get(decision.requestId)
    if (entry?.status === "open") inbox.set(decision.requestId, { ...entry, status: "decided", decision })
  }
  const mail = new Map(Result.getOrElse(mailAfter(new Map(), events), () => new Map()))
  for (const { messageId, ...message } of messages) {
    if (!mail.has(messageId)) mail.set(messageId, message)
  }
  run.batches.length = 0
  run.revision = 0
  run.checkpoint = undefined
  run.cancelReason = cancelReason
  write(run, { events, inbox, mail, status }, now)
}

/** Gives the lease of a run to an owner and raises the epoch. The caller checks that the run is free. */
export const leaseTo = (run: Run, owner: string, ttl: Duration.Input, now: Timestamp): Lease => {
  run.owner = owner
  run.epoch += 1
  extend(run, ttl, now)
  return { runId: run.runId, owner, epoch: run.epoch, until: run.leaseUntil }
}

/** Sets the end of a lease to `ttl` from now. */
export const extend = (run: Run, ttl: Duration.Input, now: Timestamp): void => {
  run.leaseMs = leaseMs(ttl)
  run.leaseUntil = now + run.leaseMs
}

/** Whether a lease is in force: the run was not claimed since, and the lease has not expired. */
export const isLeasedTo = (run: Run, { epoch, owner }: Lease, now: Timestamp): boolean =>
  run.owner === owner && run.epoch === epoch && run.leaseUntil > now

/**
 * The owner of a run as other processes see it. A lease that ends later than twice its own length from now was taken before the clock
 * was set back: another process can claim the run, and the owner keeps the lease until then.
 */
export const ownerOf = (run: Run, now: Timestamp): string | undefined =>
  run.leaseUntil > now && run.leaseUntil - 2 * run.leaseMs <= now ? run.owner : undefined

/** A request as an element of the inbox. */
export const pendingOf = (run: Run, entry: RequestEntry): PendingRequest => ({
  request: entry.request,
  runId: run.runId,
  sessionId: run.sessionId,
  agent: run.agent
})

/** The run and the sub-agents in it whose cancellation was requested and has not taken effect. */
export const endingIn = ({ cancelReason, mail, runId }: Run): ReadonlyArray<string> => [
  ...(cancelReason === undefined ? [] : [runId]),
  ...waiting(mail).flatMap(({ ends, to }) => (ends === true && to !== undefined ? [to] : []))
]

/** The fields that `append`, `renew` and `notices` return to the owner: a cancellation request, and whether there is mail. */
export const noticesOf = ({ cancelReason, inbox, mail }: Run) =>
  defined({ cancelReason, hasMail: hasDecided(inbox) || waiting(mail).length > 0 || undefined })

/** The head of a run. */
export const headOf = (run: Run, now: Timestamp, owner = ownerOf(run, now)): RunHead => ({
  runId: run.runId,
  sessionId: run.sessionId,
  agent: run.agent,
  ...(run.answeredBy === run.agent ? {} : { answeredBy: run.answeredBy }),
  status: run.status,
  revision: run.revision as Revision,
  createdAt: run.createdAt,
  updatedAt: run.updatedAt,
  ...defined({
    parent: run.parent,
    cancelReason: isCancellable(run.status) ? run.cancelReason : undefined,
    lease: owner === undefined ? undefined : { owner, until: run.leaseUntil }
  })
})

/** The order of `list`. */
export const newestFirst = (a: Run, b: Run): number =>
  b.createdAt - a.createdAt || (a.runId < b.runId ? 1 : a.runId === b.runId ? 0 : -1)
