/**
 * The causes of failed user code. They are kept outside the events that record the failures: events are stored and published, causes are
 * not. A cause is logged, traced and given to hooks without secrets; its stacks and paths stay, because neither models nor users see these.
 */
import * as Cause from "effect/Cause"
import { type RunEvent, unwrap } from "../../domain/RunEvent.ts"
import type { Scrubber } from "../../tool/Scrubber.ts"
import { redactError } from "./redactError.ts"

const causes = new WeakMap<RunEvent, Cause.Cause<unknown>>()

/** Keeps the cause of an event for as long as this process has the event. */
export const keepCause = (event: RunEvent, cause: Cause.Cause<unknown>): void =>
  void causes.set(unwrap(event).event, cause)

/** The cause of an event that records a failure of user code in this process. */
export const causeOf = (event: RunEvent): Cause.Cause<unknown> | undefined => causes.get(event)

/** Returns the cause without the secrets that the scrubber knows; the same cause if it has none. */
export const redactCause = (scrubber: Scrubber, cause: Cause.Cause<unknown>): Cause.Cause<unknown> => {
  const reasons = cause.reasons.map((reason) => {
    if (Cause.isInterruptReason(reason)) return reason
    const error = Cause.isFailReason(reason) ? reason.error : reason.defect
    const shown = redactError(scrubber, error)
    if (shown === error) return reason
    return Cause.isFailReason(reason) ? Cause.makeFailReason(shown) : Cause.makeDieReason(shown)
  })
  return reasons.every((reason, index) => reason === cause.reasons[index])
    ? cause
    : Cause.fromReasons(reasons)
}
