/**
 * The time of a rehearsal: it stands still until it is moved.
 *
 * Effect's `TestClock` is one for a whole test; a rehearsal has a clock of its own, so that a hundred of them can run in one
 * test, under any runner, and what a dead worker still sleeps on goes away with the rehearsal.
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

interface Sleeper {
  readonly until: number
  readonly wake: () => void
}

/** When every rehearsal begins. */
export const beginning = Date.UTC(2030, 0, 1)

/** A clock that is moved by hand. */
export interface RehearsalClock extends Clock.Clock {
  /** Moves the time on; whoever sleeps is woken in order, and gets to run before the next one is. */
  readonly adjust: (duration: Duration.Input) => Effect.Effect<void>
}

/** Scheduler rounds that a woken fiber gets before time goes on. */
const rounds = 10

export const make = (): RehearsalClock => {
  let now = beginning
  let sleepers: ReadonlyArray<Sleeper> = []
  const nanos = () => BigInt(Math.round(now)) * 1_000_000n

  const settle = Effect.gen(function* () {
    for (let round = 0; round < rounds; round++) yield* Effect.yieldNow
  })

  return {
    currentTimeMillisUnsafe: () => now,
    currentTimeMillis: Effect.sync(() => now),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep: (duration) =>
      Effect.callback<void>((resume) => {
        const millis = Duration.toMillis(duration)
        if (millis <= 0) return resume(Effect.yieldNow)
        const sleeper: Sleeper = { until: now + millis, wake: () => resume(Effect.void) }
        sleepers = [...sleepers, sleeper]
        return Effect.sync(() => {
          sleepers = sleepers.filter((other) => other !== sleeper)
        })
      }),
    adjust: (duration) =>
      Effect.gen(function* () {
        yield* settle
        const end = now + Duration.toMillis(Duration.fromInputUnsafe(duration))
        while (true) {
          const [next] = sleepers.filter(({ until }) => until <= end).sort((a, b) => a.until - b.until)
          if (next === undefined) break
          sleepers = sleepers.filter((other) => other !== next)
          now = Math.max(now, next.until)
          next.wake()
          yield* settle
        }
        now = Math.max(now, end)
      })
  }
}
