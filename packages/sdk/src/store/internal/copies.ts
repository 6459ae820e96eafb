/**
 * Copies of runs, and the runs of the same ids that a store has: which of the two a `restore` leaves in the store.
 *
 * An archive holds the runs that its last run builds on, and several archives may hold one run: as it was at different times, in
 * parts, in any order. A run that a process has claimed here is the store's own. Of a copy that no process has claimed, the store
 * keeps the longest journal it was given, and every decision and message that it has acknowledged.
 *
 * Pure, so that the memory store and the SQL store cannot come to differ.
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

/** A run as the store has it, when a copy of it arrives. */
export interface PresentRun extends Pick<RestoredRun, "agent" | "cancelReason" | "parent" | "sessionId"> {
  readonly events: ReadonlyArray<RunEvent>
  /** Whether a process has claimed it in this store. */
  readonly isClaimed: boolean
  /** The most of its events that a run of this store builds on; `undefined` when none does. */
  readonly builtOn?: number
  /** Decisions that its journal does not hold, without those that only time has taken. */
  readonly decisions: ReadonlyArray<Decision>
  /** Messages that its journal does not hold. */
  readonly messages: ReadonlyArray<SentMessage>
}

/** A run to be stored: its whole journal, and what its journal does not hold. */
export interface Copy extends Omit<RestoredRun, "rest"> {
  readonly decisions: ReadonlyArray<Decision>
  readonly messages: ReadonlyArray<SentMessage>
}

/** `keep`: the store's run stays as it is. `exists`: the copy is refused. Otherwise the store's run becomes `copy`. */
export type Verdict =
  | { readonly _tag: "keep" }
  | { readonly _tag: "exists"; readonly archive: ArchivedAs }
  | { readonly _tag: "replace"; readonly copy: Copy }

/** The end of a run of which only the part was copied that `by` builds on. */
export const endOfPartialCopy = (at: Timestamp, by: RunId, calls: ReadonlyArray<CallReport>): RunEvent => ({
  _tag: "run.cancelled",
  at,
  reason: `${before}${by}${after}`,
  calls
})

const before = "Only the part of it that "
const after = " builds on was copied."

/** The run as it is stored where there is none. */
export const copyOf = ({ rest = [], ...run }: RestoredRun): Copy => {
  const [first, ...more] = run.events
  return {
    ...run,
    events: [first, ...more, ...rest],
    decisions: run.decisions ?? [],
    messages: run.messages ?? []
  }
}

/** What becomes of the run in the store when a copy of it arrives, as the last run of its archive or as one that the next builds on. */
export const judgeCopy = (given: RestoredRun, present: PresentRun, isLast: boolean): Verdict => {
  const advanced = hasPositionOf(given, present) ? advance(copyOf(given), present) : undefined
  if (advanced !== undefined) return advanced
  return !isLast && startsWith(present.events, given.events)
    ? { _tag: "keep" }
    : { _tag: "exists", archive: archivedAs(given, present) }
}

/** What distinguishes a run from another one of its id: its position, and how it began. */
export interface Origin extends Pick<PresentRun, "agent" | "parent" | "sessionId"> {
  readonly events: ReadonlyArray<RunEvent>
}

/** Whether a run of the store is the one that was copied, however far the two have gone on. */
export const isOriginOf = (given: RestoredRun, origin: Origin): boolean =>
  hasPositionOf(given, origin) && startsWith(origin.events, given.events.slice(0, 1))

const hasPositionOf = (given: RestoredRun, { agent, parent, sessionId }: Omit<Origin, "events">): boolean =>
  sessionId === given.sessionId &&
  agent === given.agent &&
  parent?.runId === given.parent?.runId &&
  parent?.revision === given.parent?.revision

/** How a copy that is refused stands to the run of the store. */
const archivedAs = (given: RestoredRun, present: PresentRun): ArchivedAs => {
  if (!isOriginOf(given, present)) return "other"
  const copy = copyOf(given)
  const known = withoutEnding(present.events)
  const events = withoutEnding(copy.events)
  if (startsWith(known, events)) return hasMailOf(copy, present) ? "older" : "newer"
  return startsWith(events, known) ? "newer" : "apart"
}

/** Whether everything that waited for the copy has come to the run of the store, too. */
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

/** The copy with what the store has acknowledged, if it goes on from where the store's run stands. */
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

/** The decisions that the journal does not hold; `undefined` when one that was taken here would be lost. */
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

/** The messages that the journal does not hold; `undefined` when one that was sent here would never be read. */
const joinMessages = (
  { events, messages, status }: Copy,
  here: ReadonlyArray<SentMessage>
): ReadonlyArray<SentMessage> | undefined => {
  const known = receivedBy({ events, messages })
  const more = here.filter(({ messageId }) => !known.has(messageId))
  return more.length > 0 && closingReason(status) !== undefined ? undefined : [...messages, ...more]
}

/** The ids of the messages that a run has received, whether its journal holds them or not. */
const receivedBy = ({ events, messages }: Pick<PresentRun, "events" | "messages">): ReadonlySet<string> =>
  new Set([...takenBy(events), ...messages].map(({ messageId }) => messageId))

/** The journal as it was copied: without the end that {@link endOfPartialCopy} gave it. */
const withoutEnding = (events: ReadonlyArray<RunEvent>): ReadonlyArray<RunEvent> => {
  const last = events.at(-1)
  const isPart =
    last?._tag === "run.cancelled" && last.reason.startsWith(before) && last.reason.endsWith(after)
  return isPart ? events.slice(0, -1) : events
}

/** The refusal of an archive whose revocations were taken in. */
export const refusedExists = (
  { archive, runId, status }: RunExists,
  revoked: ReadonlyArray<GrantId>
): RunExists => new RunExists({ runId, status, archive: archive ?? "other", revoked })

/** The same where another run is in the place of one of the archive's. */
export const refusedBusy = (
  { runId, sessionId, status }: SessionBusy,
  archived: RunId,
  revoked: ReadonlyArray<GrantId>
): SessionBusy => new SessionBusy({ sessionId, runId, status, archived, revoked })

/** Runs in the order in which they build on each other, the last one's decisions and messages with it. */
export const attachMail = (
  runs: Arr.NonEmptyReadonlyArray<RestoredRun>,
  decisions: ReadonlyArray<Decision>,
  messages: ReadonlyArray<SentMessage>
): ReadonlyArray<RestoredRun> =>
  runs.map((run, index) => (index === runs.length - 1 ? { ...run, decisions, messages } : run))
