/**
 * Waiting that is cut short by a cancellation.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Cancellation from "../../../agent/Cancellation.ts"

/** Waits for a time, or until one of the tokens is cancelled. */
export const sleepUnless = (
  time: Duration.Input,
  tokens: ReadonlyArray<Cancellation.CancellationToken>
): Effect.Effect<void> =>
  Effect.raceFirst(
    Effect.sleep(time),
    Effect.callback<void>((resume) => {
      const unlink = tokens.map((token) => token.onCancel(() => resume(Effect.void)))
      return Effect.sync(() => unlink.forEach((unlink) => unlink()))
    })
  )
