/**
 * Commits staged events, and takes back those that a store refuses because a decision was acknowledged before the commit: the withdrawal
 * of the decided request, or the end of the run.
 *
 * A commit also takes back starts under grants that were revoked; see `grants.ts`. A run withdraws requests when it ends, or when a budget
 * has room again. A refused withdrawal is removed from the commit, and the other events, such as results of bodies, are committed. The run
 * reads the decision before its next step. A run that ends has no next step, so the decision is inserted before the end, in the same
 * commit.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Decision } from "../../domain/Decision.ts"
import { evolve } from "../../domain/evolve.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import { unwrap } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"
import { areEnding, isRecording, inboxChanges } from "../../store/internal/requests.ts"
import { RunConflict } from "../../store/RunStoreError.ts"
import { cancellation, type Said } from "./cancellation.ts"
import type { Drive } from "./Drive.ts"
import { now, emitRoot, publish } from "./Drive.ts"
import { takenBack } from "./grants.ts"
import type { JournalError } from "./Journal.ts"
import { foldDecisions } from "./mailEvents.ts"
import { redactEvent } from "./redact.ts"

/** Commits the staged events, then publishes them. Commits are serialized: after a flush, every event staged before it is stored. */
export const flush = (drive: Drive): Effect.Effect<void, JournalError> =>
  Effect.suspend(() => {
    if (drive.staged.length === 0) return Effect.void
    return drive.isAlone() ? commit(drive) : drive.tasks.commits.withPermit(commit(drive))
  })

/** Appends the staged events, again after each change that the store's refusal requires. */
const commit = Effect.fnUntraced(function* (drive: Drive): Effect.fn.Return<void, JournalError> {
  while (drive.staged.length > 0) {
    const events = drive.staged.slice()
    const { state } = drive
    // A store refuses an end that an acknowledged decision precedes. Without a store, it is refused here.
    if (drive.hasMail && drive.journal.isShared !== true && areEnding(events)) {
      drive.hasMail = false
      yield* takeBack(drive)
      continue
    }
    const appended = yield* Effect.result(drive.journal.append(events, state))
    if (Result.isFailure(appended)) {
      if (isRefused(appended.failure) && (yield* takeBack(drive))) continue
      return yield* Effect.fail(appended.failure)
    }
    const { cancelReason, hasMail, revoked } = appended.success
    if (revoked !== undefined) {
      for (const event of takenBack(drive.state, events, revoked, now(drive))) emitRoot(drive, event)
      continue
    }
    drive.committed = state
    if (hasMail === true) drive.hasMail = true
    // Tasks may have staged more events meanwhile.
    drive.staged.splice(0, events.length)
    publishUntil(drive, state.revision)
    if (cancelReason !== undefined) drive.token.cancel(cancelReason)
    return
  }
})

/** Whether a store has refused an event, rather than the revision. */
const isRefused = (error: unknown): boolean => error instanceof RunConflict && error.expected === error.actual

/** Takes back staged events that acknowledged decisions prevent. Returns whether there were any. */
const takeBack = Effect.fnUntraced(function* (drive: Drive) {
  const { decisions } = yield* drive.journal.mail(() => [])
  const { committed, staged } = drive
  if (committed === undefined) return false
  const ended = endedAfter(committed, staged, decisions, drive.said)
  const events =
    ended?.map((event) => redactEvent(drive.runtime.scrubber, event)) ?? withoutWithdrawn(staged, decisions)
  if (events === undefined) return false
  restage(drive, committed, events)
  if (ended === undefined) drive.hasMail = true
  return true
})

/** Replaces the staged events, and folds the replacement from the state at the last commit. */
const restage = (drive: Drive, committed: RunState, events: ReadonlyArray<RunEvent>): void => {
  const states = foldEach(committed, events)
  drive.state = states.at(-1) ?? committed
  const unpublished = drive.unpublished.splice(0)
  const published = new Set(drive.staged)
  for (const { event } of unpublished) published.delete(event)
  drive.staged.splice(0, drive.staged.length, ...events)
  if (drive.onUpdate === undefined) return
  drive.unpublished.push(...unpublished.filter(({ revision }) => revision <= committed.revision))
  events.forEach((event, index) => {
    if (!published.has(event)) drive.unpublished.push({ event, revision: states[index]!.revision })
  })
}

const publishUntil = (drive: Drive, revision: number): void => {
  const open = drive.unpublished.findIndex((update) => update.revision > revision)
  for (const update of drive.unpublished.splice(0, open < 0 ? drive.unpublished.length : open))
    publish(drive, update)
}

/**
 * The staged events without the withdrawals and summary requests of each run of which a decided request was withdrawn; `undefined` if
 * there is no such run.
 */
const withoutWithdrawn = (
  staged: ReadonlyArray<RunEvent>,
  decisions: ReadonlyArray<Decision>
): ReadonlyArray<RunEvent> | undefined => {
  const decided = new Set<string>(decisions.map(({ requestId }) => requestId))
  const runs = new Set<string>()
  for (const wrapped of staged) {
    const { event, path } = unwrap(wrapped)
    if (isWithdrawal(event) && decided.has(event.requestId)) runs.add(keyOf(path))
  }
  if (runs.size === 0) return undefined
  return staged.filter((wrapped) => {
    const { event, path } = unwrap(wrapped)
    return !runs.has(keyOf(path)) || !(isWithdrawal(event) || event._tag === "wrapUp.asked")
  })
}

/**
 * The staged events with these decisions inserted before the end of the run; `undefined` if the run does not end among them, or if they
 * record the decisions already. `from` is the state before the events.
 */
const endedAfter = (
  from: RunState,
  staged: ReadonlyArray<RunEvent>,
  decisions: ReadonlyArray<Decision>,
  said: Said | undefined
): ReadonlyArray<RunEvent> | undefined => {
  const changes = inboxChanges(staged)
  const unread = decisions.filter(
    ({ requestId }) => !changes.some((change) => isRecording(change, requestId))
  )
  const last = staged.at(-1)
  const isCancelled = last?._tag === "run.cancelled"
  if (unread.length === 0 || !(isCancelled || last?._tag === "run.failed")) return undefined
  const isBefore = (event: RunEvent) => !(isCancelled && isOfCancellation(event, last))
  const events = staged.slice(0, staged.slice(0, -1).findLastIndex(isBefore) + 1)
  const decided = foldDecisions(foldEach(from, events).at(-1) ?? from, unread)
  const end = isCancelled ? cancellation(decided.state, last.at, last.reason, said) : [last]
  return [...events, ...decided.events, ...end]
}

/** Whether an event belongs to the cancellation of a sub-agent together with the root. */
const isOfCancellation = (wrapped: RunEvent, { at, reason }: Cancelled): boolean => {
  const { event, path } = unwrap(wrapped)
  if (path.length === 0 || event.at !== at) return false
  return isWithdrawal(event) || (event._tag === "run.cancelled" && event.reason === reason)
}

type Cancelled = Extract<RunEvent, { readonly _tag: "run.cancelled" }>

type Withdrawal = Extract<RunEvent, { readonly _tag: "request.superseded" }>

const isWithdrawal = (event: RunEvent): event is Withdrawal =>
  event._tag === "request.superseded" && event.by === undefined

const keyOf = (path: ReadonlyArray<ToolCallId>): string => path.join(" ")

/** The states after each event, in order. */
const foldEach = (from: RunState, events: ReadonlyArray<RunEvent>): ReadonlyArray<RunState> => {
  const states: Array<RunState> = []
  for (const event of events) states.push(evolve(states.at(-1) ?? from, event))
  return states
}
