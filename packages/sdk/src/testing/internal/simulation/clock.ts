/**
 * The clock of a simulation. Its time changes only when the simulation changes it.
 *
 * Effect's `TestClock` belongs to a whole test. Each simulation has its own clock, so that one test can run many simulations under any
 * test runner, and the sleeps of a crashed process end with its simulation.
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

/** A clock that a simulation advances. */
export interface SimulatedClock extends Clock.Clock {
  /** Moves the clock at once, forward or back, as a correction of a machine's clock does, and ends the sleeps that are due. */
  readonly jump: (ms: number) => void
  /** Lets time pass: each sleep ends at its own time, and its fiber runs until it waits before the next sleep ends. */
  readonly adjust: (duration: Duration.Input) => Effect.Effect<void>
}

interface Sleeper {
  readonly until: number
  readonly wake: () => void
}

/** The time at which each simulation begins. */
export const beginning = Date.UTC(2030, 0, 1)

/** Number of scheduler rounds that a woken fiber gets before time advances. */
const rounds = 10

const settle = Effect.repeat(Effect.yieldNow, { times: rounds - 1 })

/** Makes a simulated clock. Sleeps of less than `shortMs` milliseconds advance it and end at once. */
export const make = ({ shortMs = 0 }: { readonly shortMs?: number } = {}): SimulatedClock => {
  let now = beginning
  const sleepers = new Set<Sleeper>()
  const nanos = () => BigInt(Math.round(now)) * 1_000_000n

  /** Ends the earliest sleep that is due at `end`. Returns false if there is none. */
  const wakeNext = (end: number): boolean => {
    let next: Sleeper | undefined
    for (const sleeper of sleepers) {
      if (sleeper.until <= end && (next === undefined || sleeper.until < next.until)) next = sleeper
    }
    if (next === undefined) return false
    sleepers.delete(next)
    now = Math.max(now, next.until)
    next.wake()
    return true
  }

  return {
    currentTimeMillisUnsafe: () => now,
    currentTimeMillis: Effect.sync(() => now),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep: (duration) =>
      Effect.callback<void>((resume) => {
        const ms = Duration.toMillis(duration)
        if (ms <= 0 || ms < shortMs) {
          now += Math.max(0, ms)
          return resume(Effect.yieldNow)
        }
        const sleeper = { until: now + ms, wake: () => resume(Effect.void) }
        sleepers.add(sleeper)
        return Effect.sync(() => sleepers.delete(sleeper))
      }),
    jump: (ms) => {
      now += ms
      while (wakeNext(now));
    },
    adjust: (duration) =>
      Effect.gen(function* () {
        yield* settle
        const end = now + Duration.toMillis(Duration.fromInputUnsafe(duration))
        while (wakeNext(end)) yield* settle
        now = Math.max(now, end)
      })
  }
}
