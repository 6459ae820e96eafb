/**
 * A clock that a simulation owns: time passes only when somebody waits for a little of it, or when the simulation says so.
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

export interface SimulatedClock extends Clock.Clock {
  /** Moves the time, forward or back, and ends the waits whose time has come. */
  readonly advance: (ms: number) => void
}

/** Waits up to this long end at once, and time has passed; longer ones (heartbeats, timeouts) end when time is moved. */
const shortMs = 1000

export const make = (start = 1_800_000_000_000): SimulatedClock => {
  let now = start
  const nanos = () => BigInt(Math.round(now)) * 1_000_000n
  const sleepers = new Set<{ readonly until: number; readonly wake: () => void }>()
  return {
    currentTimeMillisUnsafe: () => now,
    currentTimeMillis: Effect.sync(() => now),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep: (duration) => {
      const ms = Duration.toMillis(duration)
      if (ms < shortMs) {
        return Effect.andThen(
          Effect.sync(() => {
            now += ms
          }),
          Effect.yieldNow
        )
      }
      return Effect.callback<void>((resume) => {
        const sleeper = { until: now + ms, wake: () => resume(Effect.void) }
        sleepers.add(sleeper)
        return Effect.sync(() => sleepers.delete(sleeper))
      })
    },
    advance: (ms) => {
      now += ms
      for (const sleeper of sleepers) {
        if (sleeper.until > now) continue
        sleepers.delete(sleeper)
        sleeper.wake()
      }
    }
  }
}
