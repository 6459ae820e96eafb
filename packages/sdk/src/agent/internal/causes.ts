/**
 * The causes of failed user code. They are kept outside the events that record the failures: events are stored and published, causes are
 * not. A cause is logged, traced and given to hooks without secrets; its stacks and paths stay, because neither models nor users see these.
 */
import * as Cause from "effect/Cause"
import { messageOf } from "../../domain/Display.ts"
import { type RunEvent, unwrap } from "../../domain/RunEvent.ts"
import type { Scrubber } from "../../tool/Scrubber.ts"

const causes = new WeakMap<RunEvent, Cause.Cause<unknown>>()

/** Keeps the cause of an event for as long as this process has the event. */
export const keepCause = (event: RunEvent, cause: Cause.Cause<unknown>): void =>
  void causes.set(unwrap(event).event, cause)

/** The cause of an event that records a failure of user code in this process. */
export const causeOf = (event: RunEvent): Cause.Cause<unknown> | undefined => causes.get(event)

/** Returns the cause without the secrets that the scrubber knows; the same cause if it has none. */
export const redactCause = (scrubber: Scrubber, cause: Cause.Cause<unknown>): Cause.Cause<unknown> => {
  const redact = scrubber.redact ?? scrubber.scrub
  const isClean = (text: string) => redact(text) === text
  let isChanged = false
  const reasons = cause.reasons.map((reason) => {
    if (Cause.isInterruptReason(reason)) return reason
    const error = Cause.isFailReason(reason) ? reason.error : reason.defect
    if (areClean(error, isClean)) return reason
    isChanged = true
    const shown = withoutSecrets(error, redact)
    return Cause.isFailReason(reason) ? Cause.makeFailReason(shown) : Cause.makeDieReason(shown)
  })
  return isChanged ? Cause.fromReasons(reasons) : cause
}

/** Whether every text of a value is clean: messages, stacks, fields, causes. A value that throws when it is read is not clean. */
const areClean = (value: unknown, isClean: (text: string) => boolean, seen = new Set<unknown>()): boolean => {
  if (typeof value === "string") return isClean(value)
  if (typeof value !== "object" || value === null || seen.has(value)) return true
  seen.add(value)
  try {
    const fields = value as Readonly<Record<PropertyKey, unknown>>
    const isOf = (key: string) => isClean(key) && areClean(fields[key], isClean, seen)
    // A message may be a getter of the error's class, and then is no own property.
    return Object.getOwnPropertyNames(value).every(isOf) && areClean(fields["message"], isClean, seen)
  } catch {
    return false
  }
}

/** Replaces an error that contains a secret by one with its redacted name, message and stack. */
const withoutSecrets = (error: unknown, redact: (text: string) => string): Error => {
  const shown = new Error(redact(messageOf(error)))
  delete shown.stack
  try {
    if (!(error instanceof Error)) return shown
    const { name, stack = "" } = error
    return Object.assign(shown, { name: redact(name), stack: redact(stack) })
  } catch {
    return shown
  }
}
