/**
 * Bounds the share of time that a process spends on looking at a store.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/** The maximal pause between two looks, in milliseconds. */
const longestPauseMs = 2000

/** Pauses after a look for nine times as long as it took, and at least `leastMs`, so that looks at many runs take a tenth of the time. */
export const spaced = Effect.fnUntraced(function* <E>(look: Effect.Effect<void, E>, leastMs: number) {
  const before = yield* Clock.currentTimeMillis
  yield* look
  const took = (yield* Clock.currentTimeMillis) - before
  const pauseMs = Math.min(longestPauseMs, Math.max(leastMs, 9 * took))
  if (pauseMs > 0) yield* Effect.sleep(pauseMs)
})
