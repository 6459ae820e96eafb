/**
 * One run as the memory store keeps it, changed in place.
 */
import type * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import type { Revision, Timestamp } from "../../../domain/Id.ts"
import { defined } from "../../../domain/internal/defined.ts"
import { SessionBusy } from "../../../domain/RunError.ts"
import { type RunEvent, version } from "../../../domain/RunEvent.ts"
import type { Status } from "../../../domain/RunState.ts"
import { encodeEvents } from "../../../domain/RunStateCodec.ts"
import type { Lease, PendingRequest, ReadyRun, RunHead } from "../../RunStorePort.ts"
import { leaseMs } from "../bounds.ts"
import type { Copy } from "../copies.ts"
import { inboxAfter, closed, hasDecided, type Inbox, readiness } from "../inbox.ts"
import { answererIn, type Batch } from "../journal.ts"
import { mailAfter, type Mail, waiting } from "../messages.ts"
import { closingReason, isCancellable, type RequestEntry } from "../requests.ts"
import type { CheckpointEntry } from "./checkpoints.ts"

/** A run, its journal, its requests and its messages. */
export interface Run extends Pick<RunHead, "agent" | "parent" | "runId" | "sessionId"> {
  /** The run of its own session that it comes after; "" for the first one. */
  readonly follows: string
  createdAt: Timestamp
  readonly batches: Array<Batch>
  updatedAt: Timestamp
  /** Who has the conversation. */
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

/** Appends events that leave the run in this state, with these requests and messages. */
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

/** A run with its first events and without a lease, which is not kept yet; or the one that has its place. */
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

/** Gives a run this journal, and what the journal does not hold, instead of what it has. */
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

/** Leases a run to an owner, whichever process owned it. */
export const leaseTo = (run: Run, owner: string, ttl: Duration.Input, now: Timestamp): Lease => {
  run.owner = owner
  run.epoch += 1
  extend(run, ttl, now)
  return { runId: run.runId, owner, epoch: run.epoch, until: run.leaseUntil }
}

/** Lets a lease last for so long from now. */
export const extend = (run: Run, ttl: Duration.Input, now: Timestamp): void => {
  run.leaseMs = leaseMs(ttl)
  run.leaseUntil = now + run.leaseMs
}

/** Whether a lease is in force: not claimed by another owner since, and not over. */
export const isLeasedTo = (run: Run, { epoch, owner }: Lease, now: Timestamp): boolean =>
  run.owner === owner && run.epoch === epoch && run.leaseUntil > now

/**
 * The owner of a run as others see it. A lease that ends later than twice its own length from now was given before the clock was
 * set back: the run can be claimed, and until then its owner keeps it.
 */
export const ownerOf = (run: Run, now: Timestamp): string | undefined =>
  run.leaseUntil > now && run.leaseUntil - 2 * run.leaseMs <= now ? run.owner : undefined

/** A request as the inbox shows it. */
export const pendingOf = (run: Run, entry: RequestEntry): PendingRequest => ({
  request: entry.request,
  runId: run.runId,
  sessionId: run.sessionId,
  agent: run.agent
})

/** The runs whose end was asked for and has not come: the run itself, and sub-agents in it. */
export const endingIn = ({ cancelReason, mail, runId }: Run): ReadonlyArray<string> => [
  ...(cancelReason === undefined ? [] : [runId]),
  ...waiting(mail).flatMap(({ ends, to }) => (ends === true && to !== undefined ? [to] : []))
]

/** Why the run needs a worker; `undefined` when it needs none. */
export const reasonOf = (run: Run, now: Timestamp): ReadyRun["reason"] | undefined => {
  if (ownerOf(run, now) !== undefined) return undefined
  if (run.status === "running") return "orphaned"
  if (run.status !== "held") return undefined
  if (run.cancelReason !== undefined) return "cancelled"
  const reason = readiness(run.inbox, now)
  return reason !== "decided" && waiting(run.mail).length > 0 ? "message" : reason
}

/** What the owner of a run receives with every answer: whether it is to be cancelled, and whether there is mail. */
export const noticesOf = ({ cancelReason, inbox, mail }: Run) =>
  defined({ cancelReason, hasMail: hasDecided(inbox) || waiting(mail).length > 0 || undefined })

/** What there is to know of a run besides its events. */
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

/** The order of `ready`. */
export const untouchedFirst = (a: Run, b: Run): number =>
  a.updatedAt - b.updatedAt || (a.runId < b.runId ? -1 : a.runId === b.runId ? 0 : 1)

/** The order of `list`. */
export const newestFirst = (a: Run, b: Run): number =>
  b.createdAt - a.createdAt || (a.runId < b.runId ? 1 : a.runId === b.runId ? 0 : -1)
