/**
 * Takes the mail of a run: the decisions and messages that its journal does not hold yet.
 */
import * as Effect from "effect/Effect"
import { expiries } from "../../domain/decide.ts"
import type { Decision } from "../../domain/Decision.ts"
import type { RunId } from "../../domain/Id.ts"
import { lineOf } from "../../domain/Id.ts"
import { textOf } from "../../domain/Message.ts"
import { wrap } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"
import { answerable, findChild, isEnded } from "../../domain/RunState.ts"
import type { Mail } from "../Mail.ts"
import { childCancellation } from "./cancellation.ts"
import { flush } from "./commit.ts"
import type { Drive } from "./Drive.ts"
import { emitRoot, now } from "./Drive.ts"
import type { JournalError } from "./Journal.ts"
import { eventsOf, takeMessage } from "./mailEvents.ts"
import { approvalCallbackTask } from "./Tasks.ts"

/** Folds the mail, and ends the sub-agents that messages ask to end. */
export const takeMail = Effect.fnUntraced(function* (drive: Drive) {
  // Cleared before the mail is read: the loop of a sub-agent may set it again meanwhile.
  drive.hasEnding = false
  const { ending } = yield* take(drive)
  for (const message of ending) yield* endForSubAgent(drive, message)
  if (ending.length === 0) return
  // Committed now, so that the caller that asked for the end does not wait for the lead's next commit.
  yield* flush(drive)
  drive.notify()
})

/**
 * Takes the mail in the loop of a sub-agent, so that its messages arrive while its lead waits. Sub-agents that messages ask to end are
 * only asked to stop here: the root's loop ends them, since ending one waits for its loop, which may be the caller of this function.
 */
export const takeMailInTask = Effect.fnUntraced(function* (drive: Drive) {
  const { ending, isNews } = yield* takeOnce(drive)
  if (ending.length > 0) drive.hasEnding = true
  for (const { content, to } of ending) drive.tasks.requestStop(to, textOf(content))
  if (isNews) drive.notify()
})

type Ending = Mail["messages"][number] & { readonly to: RunId }

/** Folds the mail, except messages that end a sub-agent, which are returned. Serialized, so that no mail is folded twice. */
const take = (drive: Drive): Effect.Effect<Taken, JournalError> =>
  drive.isAlone() ? folding(drive) : drive.tasks.mail.withPermit(folding(drive))

interface Taken {
  readonly isNews: boolean
  readonly ending: ReadonlyArray<Ending>
}

/** Takes the mail like `take`, unless another fiber took it while this one waited for its permit. */
const takeOnce = (drive: Drive): Effect.Effect<Taken, JournalError> =>
  drive.tasks.mail.withPermit(
    Effect.suspend(() => (drive.hasMail ? folding(drive) : Effect.succeed(nothing)))
  )

const nothing: Taken = { isNews: false, ending: [] }

const folding = Effect.fnUntraced(function* (drive: Drive): Effect.fn.Return<Taken, JournalError> {
  // Commits the mail that was taken before, so that the journal does not return it again.
  yield* flush(drive)
  drive.hasMail = false
  // The mail of a failed run stays until the run is continued.
  if (drive.state.status === "error") return nothing
  const notes = drive.takeNotes()
  for (const note of notes) emitRoot(drive, note(now(drive)))
  const { decisions, messages } = yield* drive.journal.mail(() => expiries(drive.state, now(drive)))
  if (drive.token.reason() === undefined) yield* drive.journal.requireFitting(drive.state, decisions)
  takeDecisions(drive, decisions)
  const ending: Array<Ending> = []
  for (const message of messages) {
    const { ends, to } = message
    if (to !== undefined && ends === true) ending.push({ ...message, to })
    else emitRoot(drive, takeMessage(drive.state, message, now(drive)))
  }
  return { isNews: notes.length + decisions.length + messages.length > 0, ending }
})

/** Folds decisions, and records those that no longer apply. Returns whether there were any. */
export const takeDecisions = (drive: Drive, decisions: ReadonlyArray<Decision>): boolean => {
  for (const decision of decisions)
    for (const event of eventsOf(drive.state, decision)) emitRoot(drive, event)
  if (decisions.length > 0) stopCallback(drive)
  return decisions.length > 0
}

/**
 * Ends the sub-agent that a message asks to end, with the runs under it, and takes the message. The message and the ends are committed
 * together, so that they survive a crash together or not at all.
 */
const endForSubAgent = Effect.fnUntraced(function* (
  drive: Drive,
  message: Mail["messages"][number] & { readonly to: RunId }
) {
  const { path } = lineOf(message.to)
  const reason = textOf(message.content)
  const last = path.at(-1)
  if (last !== undefined) yield* drive.tasks.stop([last], reason)
  const at = now(drive)
  emitRoot(drive, takeMessage(drive.state, message, at))
  const child = path.reduce<RunState | undefined>(
    (state, callId) => (state === undefined ? undefined : findChild(state, callId)),
    drive.state
  )
  if (last === undefined || child === undefined || isEnded(child)) return
  for (const event of childCancellation(child, at, reason, drive.said)) emitRoot(drive, wrap(event, path))
})

/** Stops the approval callback if its request is no longer open, so that a callback that never returns blocks neither run nor requests. */
export const stopCallback = (drive: Drive): void => {
  const { callbackAsking, state } = drive
  if (callbackAsking === undefined) return
  if (answerable(state).some(({ requestId }) => requestId === callbackAsking)) return
  drive.tasks.requestStop(approvalCallbackTask, "The request was decided.")
}
