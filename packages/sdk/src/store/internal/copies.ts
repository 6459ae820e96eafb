/**
 * The rules of `restore`: whether a given copy of a run replaces the store's run with the same id.
 *
 * An archive contains the runs that its last run builds on, so several archives may contain the same run, at different times, in parts,
 * and may arrive in any order. A run that a process of this store has claimed is never replaced. Of a copy that was never claimed, the
 * store keeps the longest journal that it was given, and every decision and message that it has acknowledged.
 *
 * The functions are pure and shared by the memory store and the SQL store.
 */
import type * as Arr from "effect/Array"
import * as Result from "effect/Result"
import type { Decision } from "../../domain/Decision.ts"
import type { GrantId, RunId, Timestamp } from "../../domain/Id.ts"
import { sameDecision } from "../../domain/internal/judgeDecision.ts"
import { SessionBusy } from "../../domain/RunError.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { CallReport } from "../../domain/ToolCall.ts"
import { type ArchivedAs, RunExists } from "../RunStoreError.ts"
import type { RestoredRun } from "../RunStorePort.ts"
import type { SentMessage } from "../SentMessage.ts"
import { inboxAfter, type Inbox } from "./inbox.ts"
import { startsWith } from "./journal.ts"
import { takenBy } from "./messages.ts"
import { closingReason } from "./requests.ts"

/** The store's run when a copy of it arrives. */
export interface PresentRun extends Pick<RestoredRun, "agent" | "cancelReason" | "parent" | "sessionId"> {
  readonly events: ReadonlyArray<RunEvent>
  /** Whether a process of this store has ever claimed it. */
  readonly isClaimed: boolean
  /** The highest revision that a run of this store builds on; `undefined` if none does. */
  readonly builtOn?: number
  /** Decisions that its journal does not contain, without those by expiry that no process has recorded. */
  readonly decisions: ReadonlyArray<Decision>
  /** Messages that its journal does not contain. */
  readonly messages: ReadonlyArray<SentMessage>
}

/** A run to store: its whole journal, and the mail that the journal does not contain. */
export interface Copy extends Omit<RestoredRun, "rest"> {
  readonly decisions: ReadonlyArray<Decision>
  readonly messages: ReadonlyArray<SentMessage>
}

/** The result of {@link judgeCopy}. `keep`: the store's run stays unchanged. `exists`: the copy is refused. `replace`: `copy` replaces the store's run. */
export type Verdict =
  | { readonly _tag: "keep" }
  | { readonly _tag: "exists"; readonly archive: ArchivedAs }
  | { readonly _tag: "replace"; readonly copy: Copy }

/** The final event of a partial copy: only the events that the run `by` builds on were copied. */
export const endOfPartialCopy = (at: Timestamp, by: RunId, calls: ReadonlyArray<CallReport>): RunEvent => ({
  _tag: "run.cancelled",
  at,
  reason: `${before}${by}${after}`,
  calls
})

const before = "Only the part of it that "
const after = " builds on was copied."

/** The copy to store when the store does not have the run. */
export const copyOf = ({ rest = [], ...run }: RestoredRun): Copy => {
  const [first, ...more] = run.events
  return {
    ...run,
    events: [first, ...more, ...rest],
    decisions: run.decisions ?? [],
    messages: run.messages ?? []
  }
}

/** Judges a copy of a stored run. `isLast`: the copy is the last run of its archive; otherwise the next one builds on it. */
export const judgeCopy = (given: RestoredRun, present: PresentRun, isLast: boolean): Verdict => {
  const advanced = hasPositionOf(given, present) ? advance(copyOf(given), present) : undefined
  if (advanced !== undefined) return advanced
  return !isLast && startsWith(present.events, given.events)
    ? { _tag: "keep" }
    : { _tag: "exists", archive: archivedAs(given, present) }
}

/** The facts by which two runs with the same id are distinguished: their agent, their position, and their first event. */
export interface Origin extends Pick<PresentRun, "agent" | "parent" | "sessionId"> {
  readonly events: ReadonlyArray<RunEvent>
}

/** Whether the store's run and the copy have the same origin, so that they are the same run at possibly different revisions. */
export const isOriginOf = (given: RestoredRun, origin: Origin): boolean =>
  hasPositionOf(given, origin) && startsWith(origin.events, given.events.slice(0, 1))

const hasPositionOf = (given: RestoredRun, { agent, parent, sessionId }: Omit<Origin, "events">): boolean =>
  sessionId === given.sessionId &&
  agent === given.agent &&
  parent?.runId === given.parent?.runId &&
  parent?.revision === given.parent?.revision

/** The relation of a refused copy to the store's run. */
const archivedAs = (given: RestoredRun, present: PresentRun): ArchivedAs => {
  if (!isOriginOf(given, present)) return "other"
  const copy = copyOf(given)
  const known = withoutEnding(present.events)
  const events = withoutEnding(copy.events)
  if (startsWith(known, events)) return hasMailOf(copy, present) ? "older" : "newer"
  return startsWith(events, known) ? "newer" : "apart"
}

/** Whether the store's run has received all mail of the copy, and its cancellation request if there is one. */
const hasMailOf = ({ cancelReason, decisions, messages }: Copy, present: PresentRun): boolean => {
  const inbox = Result.getOrUndefined(inboxAfter(new Map(), present.events))
  const here = new Map(present.decisions.map((decision) => [decision.requestId, decision]))
  const received = receivedBy(present)
  return (
    (cancelReason === undefined || present.cancelReason !== undefined) &&
    messages.every(({ messageId }) => received.has(messageId)) &&
    decisions.every((decision) => {
      const counted = inbox?.get(decision.requestId)?.decision ?? here.get(decision.requestId)
      return counted !== undefined && sameDecision(counted, decision)
    })
  )
}

/** Merges the copy with the mail that the store acknowledged; `undefined` if the copy cannot replace the store's run. */
const advance = (copy: Copy, present: PresentRun): Verdict | undefined => {
  const known = withoutEnding(present.events)
  const events = withoutEnding(copy.events)
  if (present.isClaimed || (present.builtOn ?? 0) > known.length || !startsWith(events, known)) return
  const isPart = events.length < copy.events.length
  if (isPart && events.length === known.length) return
  const inbox = Result.getOrUndefined(inboxAfter(new Map(), copy.events))
  const decisions = inbox === undefined ? undefined : joinDecisions(copy, inbox, present.decisions)
  const messages = joinMessages(copy, present.messages)
  if (decisions === undefined || messages === undefined) return
  const cancelReason = present.cancelReason ?? copy.cancelReason
  const isNew =
    known.length < events.length ||
    known.length < present.events.length ||
    decisions.length > present.decisions.length ||
    messages.length > present.messages.length ||
    cancelReason !== present.cancelReason
  if (!isNew) return { _tag: "keep" }
  return {
    _tag: "replace",
    copy: { ...copy, decisions, messages, ...(cancelReason === undefined ? {} : { cancelReason }) }
  }
}

/** Merges the decisions that the journal does not contain; `undefined` if one of this store would be lost. */
const joinDecisions = (
  { decisions, status }: Copy,
  inbox: Inbox,
  here: ReadonlyArray<Decision>
): ReadonlyArray<Decision> | undefined => {
  const joined = [...decisions]
  for (const decision of here) {
    const { requestId } = decision
    const entry = inbox.get(requestId)
    const other = entry?.decision ?? decisions.find((other) => other.requestId === requestId)
    if (other !== undefined && !sameDecision(other, decision)) return
    if (other !== undefined) continue
    if (entry?.status !== "open" || closingReason(status) !== undefined) return
    joined.push(decision)
  }
  return joined
}

/** Merges the messages that the journal does not contain; `undefined` if one of this store would never be read, because the copy has ended. */
const joinMessages = (
  { events, messages, status }: Copy,
  here: ReadonlyArray<SentMessage>
): ReadonlyArray<SentMessage> | undefined => {
  const known = receivedBy({ events, messages })
  const more = here.filter(({ messageId }) => !known.has(messageId))
  return more.length > 0 && closingReason(status) !== undefined ? undefined : [...messages, ...more]
}

/** The ids of all messages that a run has received, in its journal or not. */
const receivedBy = ({ events, messages }: Pick<PresentRun, "events" | "messages">): ReadonlySet<string> =>
  new Set([...takenBy(events), ...messages].map(({ messageId }) => messageId))

/** The journal without the final event of {@link endOfPartialCopy}. */
const withoutEnding = (events: ReadonlyArray<RunEvent>): ReadonlyArray<RunEvent> => {
  const last = events.at(-1)
  const isPart =
    last?._tag === "run.cancelled" && last.reason.startsWith(before) && last.reason.endsWith(after)
  return isPart ? events.slice(0, -1) : events
}

/** Adds the applied revocations to the refusal of an archive, and the relation `other` if it has none. */
export const refusedExists = (
  { archive, runId, status }: RunExists,
  revoked: ReadonlyArray<GrantId>
): RunExists => new RunExists({ runId, status, archive: archive ?? "other", revoked })

/** Adds the applied revocations, and the archived run, to a refusal because another run has its position. */
export const refusedBusy = (
  { runId, sessionId, status }: SessionBusy,
  archived: RunId,
  revoked: ReadonlyArray<GrantId>
): SessionBusy => new SessionBusy({ sessionId, runId, status, archived, revoked })

/** Adds the decisions and messages to the last of the runs. */
export const attachMail = (
  runs: Arr.NonEmptyReadonlyArray<RestoredRun>,
  decisions: ReadonlyArray<Decision>,
  messages: ReadonlyArray<SentMessage>
): ReadonlyArray<RestoredRun> =>
  runs.map((run, index) => (index === runs.length - 1 ? { ...run, decisions, messages } : run))
