/**
 * Taking the mail of a run: decisions and messages that were stored since.
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

/** Takes what was decided and said meanwhile into the run, and ends what somebody has asked to end. */
export const takeMail = Effect.fnUntraced(function* (drive: Drive) {
  // Before it is read: a sub-agent may find more of it from then on.
  drive.hasEnding = false
  const { ending } = yield* take(drive)
  for (const message of ending) yield* endForSubAgent(drive, message)
  if (ending.length === 0) return
  // Whoever has asked for it need not wait for what the lead does next.
  yield* flush(drive)
  drive.notify()
})

/**
 * The same for the loop of a sub-agent, which hears at its own next turn what is said to it, whatever its lead is doing. Ending one waits
 * until that has stopped, which may be the one that asks: it is left to the root's loop, and only told to stop here.
 */
export const takeMailInTask = Effect.fnUntraced(function* (drive: Drive) {
  const { ending, isNews } = yield* takeOnce(drive)
  if (ending.length > 0) drive.hasEnding = true
  for (const { content, to } of ending) drive.tasks.requestStop(to, textOf(content))
  if (isNews) drive.notify()
})

type Ending = Mail["messages"][number] & { readonly to: RunId }

/** Folds all mail but what ends a sub-agent, which is returned. One at a time, or two would fold the same. */
const take = (drive: Drive): Effect.Effect<Taken, JournalError> =>
  drive.isAlone() ? folding(drive) : drive.tasks.mail.withPermit(folding(drive))

interface Taken {
  readonly isNews: boolean
  readonly ending: ReadonlyArray<Ending>
}

/** The same, unless somebody else has done so while this one waited for its turn. */
const takeOnce = (drive: Drive): Effect.Effect<Taken, JournalError> =>
  drive.tasks.mail.withPermit(
    Effect.suspend(() => (drive.hasMail ? folding(drive) : Effect.succeed(nothing)))
  )

const nothing: Taken = { isNews: false, ending: [] }

const folding = Effect.fnUntraced(function* (drive: Drive): Effect.fn.Return<Taken, JournalError> {
  // What was taken before is in the journal now, and is not mail any more.
  yield* flush(drive)
  drive.hasMail = false
  // It waits with the run, which acts on it once it is resumed.
  if (drive.state.status === "error") return nothing
  const { decisions, messages } = yield* drive.journal.mail(() => expiries(drive.state, now(drive)))
  if (drive.token.reason() === undefined) yield* drive.journal.requireFitting(drive.state, decisions)
  takeDecisions(drive, decisions)
  const ending: Array<Ending> = []
  for (const message of messages) {
    const { ends, to } = message
    if (to !== undefined && ends === true) ending.push({ ...message, to })
    else emitRoot(drive, takeMessage(drive.state, message, now(drive)))
  }
  return { isNews: decisions.length > 0 || messages.length > 0, ending }
})

/** Folds decisions. One that no longer applies is put on record as such, so that nobody waits for its effect. */
export const takeDecisions = (drive: Drive, decisions: ReadonlyArray<Decision>): boolean => {
  for (const decision of decisions)
    for (const event of eventsOf(drive.state, decision)) emitRoot(drive, event)
  if (decisions.length > 0) stopCallback(drive)
  return decisions.length > 0
}

/**
 * Stops the sub-agent that a message ends, with everything under it, and takes the message. The message and the ends are committed
 * together, so that a process that dies in between leaves both to do.
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
  for (const event of childCancellation(child, at, reason)) emitRoot(drive, wrap(event, path))
})

/** Stops asking about a request that waits no longer. A callback that never answers must not keep the run, or the next request, waiting. */
export const stopCallback = (drive: Drive): void => {
  const { callbackAsking, state } = drive
  if (callbackAsking === undefined) return
  if (answerable(state).some(({ requestId }) => requestId === callbackAsking)) return
  drive.tasks.requestStop(approvalCallbackTask, "The request was decided.")
}
