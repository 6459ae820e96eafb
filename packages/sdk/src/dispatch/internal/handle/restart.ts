/**
 * When a run that has failed is tried again: only after a failure that may pass, and only so often.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Pull from "effect/Pull"
import * as Schedule from "effect/Schedule"
import type { RunError } from "../../../domain/RunError.ts"

/**
 * How often, and after which time, a run that has failed with an error that may pass goes on from where it stood: `times` and a
 * `backoff` that doubles from the second time on, up to a minute; or a schedule.
 */
export type Restart =
  | { readonly times: number; readonly backoff?: Duration.Input }
  | { readonly schedule: Schedule.Schedule<unknown, RunError> }

/** Milliseconds until the next attempt; `undefined` to give up. */
export type NextAttempt = (error: RunError, now: number) => Effect.Effect<number | undefined>

/** The attempts of one run. */
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
