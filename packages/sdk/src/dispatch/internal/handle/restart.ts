/**
 * Schedules the attempts to resume a run that failed with a retryable error.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Pull from "effect/Pull"
import * as Schedule from "effect/Schedule"
import type { RunError } from "../../../domain/RunError.ts"

/**
 * How often, and after which delays, a run that failed with a `ModelFailed` whose `isRetryable` is true is resumed from its state: at most
 * `times`, after a `backoff` (default: 1 second) that doubles with each attempt up to a minute; or by a schedule.
 */
export type Restart =
  | { readonly times: number; readonly backoff?: Duration.Input }
  | { readonly schedule: Schedule.Schedule<unknown, RunError> }

/** Returns the milliseconds until the next attempt; `undefined` if there is none. */
export type NextAttempt = (error: RunError, now: number) => Effect.Effect<number | undefined>

/** Makes the counter of the attempts of one run. */
export const attempts = (restart: Restart): Effect.Effect<NextAttempt> => {
  if ("schedule" in restart) {
    return Effect.map(
      Schedule.toStep(restart.schedule),
      (step): NextAttempt =>
        (error, now) =>
          Pull.matchEffect(step(now, error), {
            onSuccess: ([, delay]) => Effect.succeed(Duration.toMillis(delay)),
            onFailure: () => Effect.succeed(undefined),
            onDone: () => Effect.succeed(undefined)
          })
    )
  }
  const { backoff = "1 second", times } = restart
  const first = Duration.toMillis(Duration.fromInputUnsafe(backoff))
  let done = 0
  return Effect.succeed(() =>
    Effect.sync(() => (done < times ? Math.min(longestMs, first * 2 ** done++) : undefined))
  )
}

const longestMs = 60_000
