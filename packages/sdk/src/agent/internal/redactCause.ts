/**
 * A cause as it may be logged, traced and given to hooks: without the secrets that the scrubber knows. Stacks and paths stay; a model or a
 * user never sees them.
 */
import * as Cause from "effect/Cause"
import { messageOf } from "../../domain/Display.ts"
import type { Scrubber } from "../../tool/Scrubber.ts"

/** The cause without secrets; the same one when there are none. */
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

/** Whether every text of a value is clean: messages, stacks, fields, causes. What cannot be looked at is not. */
const areClean = (value: unknown, isClean: (text: string) => boolean, seen = new Set<unknown>()): boolean => {
  if (typeof value === "string") return isClean(value)
  if (typeof value !== "object" || value === null || seen.has(value)) return true
  seen.add(value)
  try {
    const fields = value as Readonly<Record<PropertyKey, unknown>>
    const isOf = (key: string) => isClean(key) && areClean(fields[key], isClean, seen)
    // The message of an error may be one that its class makes.
    return Object.getOwnPropertyNames(value).every(isOf) && areClean(fields["message"], isClean, seen)
  } catch {
    return false
  }
}

/** What can be said of an error that holds a secret: its name, its message and its stack. */
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
