/**
 * The causes of failed user code, kept outside the events that record the failures: events are stored and published, causes are not.
 */
import type * as Cause from "effect/Cause"
import { type RunEvent, unwrap } from "../../domain/RunEvent.ts"

const causes = new WeakMap<RunEvent, Cause.Cause<unknown>>()

/** Keeps the cause of an event for as long as this process has the event. */
export const keepCause = (event: RunEvent, cause: Cause.Cause<unknown>): void =>
  void causes.set(unwrap(event).event, cause)

/** The cause of an event that records a failure of user code in this process. */
export const causeOf = (event: RunEvent): Cause.Cause<unknown> | undefined => causes.get(event)
