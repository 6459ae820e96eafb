/**
 * Leaving a run, held or completed, unless there is mail; and taking the mail.
 */
import * as Effect from "effect/Effect"
import type { Decision } from "../../domain/Decision.ts"
import { evolve } from "../../domain/evolve.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import { wake } from "./beside.ts"
import { type Drive, emitRoot, flush, now, tellAll } from "./Drive.ts"
import { eventsOf } from "./eventsOf.ts"
import { redactEvent } from "./redact.ts"
import { takeForSubAgent } from "./subAgentMail.ts"

/** Lets go of the run with a last event, unless there is something new to act on: then `false`, and the run goes on. */
export const leave = Effect.fnUntraced(function* <E>(drive: Drive<E>, last: RunEvent) {
  const event = redactEvent(drive.runtime.scrubber, last)
  const after = evolve(drive.state, event)
  if (yield* drive.journal.park([...drive.staged, event], after)) {
    drive.staged.length = 0
    drive.state = after
    drive.untold.push({ event, revision: after.revision })
    tellAll(drive)
    return true
  }
  yield* takeMail(drive)
  const { cancelReason } = yield* drive.journal.pulse
  if (cancelReason !== undefined) drive.token.cancel(cancelReason)
  return false
})

/** Takes what was decided and said meanwhile into the run. */
export const takeMail = Effect.fnUntraced(function* <E>(drive: Drive<E>) {
  // What was taken before is in the journal now, and is not mail any more.
  yield* flush(drive)
  drive.hasMail = false
  const { decisions, messages } = yield* drive.journal.mail
  takeDecisions(drive, decisions)
  for (const message of messages) {
    const { content, messageId, to } = message
    if (to !== undefined) {
      yield* takeForSubAgent(drive, message, to)
      continue
    }
    const sent = messageId === undefined ? {} : { messageId }
    emitRoot(drive, { _tag: "message.queued", at: now(drive), content, ...sent })
  }
  // A sub-agent that waits for those under it looks again.
  if (messages.some(({ to }) => to !== undefined)) wake(drive)
})

/** Folds decisions. One that no longer applies is put on record as such, so that nobody waits for its effect. */
export const takeDecisions = (drive: Drive<any>, decisions: ReadonlyArray<Decision>): boolean => {
  for (const decision of decisions)
    for (const event of eventsOf(drive.state, decision)) emitRoot(drive, event)
  return decisions.length > 0
}
