/**
 * The time of a simulation: it stands still until the simulation moves it.
 *
 * Effect's `TestClock` is one for a whole test. A simulation has a clock of its own, so that a hundred of them can run in one test,
 * under any runner, and the sleeps of a dead process go away with its simulation.
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

/** A clock that a simulation moves. */
export interface SimulatedClock extends Clock.Clock {
  /** Sets the clock at once, forward or back, as a correction of a machine's clock does, and ends the sleeps that are due. */
  readonly jump: (ms: number) => void
  /** Lets time pass: every sleep ends at its own time, and its fiber goes on as far as it can before the next one ends. */
  readonly adjust: (duration: Duration.Input) => Effect.Effect<void>
}

interface Sleeper {
  readonly until: number
  readonly wake: () => void
}

/** When every simulation begins. */
export const beginning = Date.UTC(2030, 0, 1)

/** Scheduler rounds that a woken fiber gets before time goes on. */
const rounds = 10

const settle = Effect.repeat(Effect.yieldNow, { times: rounds - 1 })

/** Sleeps of less than `shortMs` end at once, and time has passed. */
export const make = ({ shortMs = 0 }: { readonly shortMs?: number } = {}): SimulatedClock => {
  let now = beginning
  const sleepers = new Set<Sleeper>()
  const nanos = () => BigInt(Math.round(now)) * 1_000_000n

  /** Ends the earliest sleep that is due by then; false without one. */
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
