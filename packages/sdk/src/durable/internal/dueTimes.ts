/**
 * Wakes a process at the times at which held runs become ready by themselves: a wait ends, a request expires, or an announcement is due.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import { spaced } from "./spaced.ts"

/** The due times of some runs. */
interface DueTimes {
  /** Reads the earliest due time after a given one. It is read again after a change and after each due time, and never meanwhile. */
  readonly next: (after: number) => Effect.Effect<number | undefined>
  /** Has an element when an earlier due time may have appeared. */
  readonly changed: Queue.Queue<void>
  /** Starts the ready runs. */
  readonly wake: Effect.Effect<unknown>
}

/**
 * Wakes once at each due time. A run that is still ready afterwards, for example because another process owns it, is found by a later poll.
 * The caller makes the first check itself, after this effect has begun.
 */
export const wakeWhenDue = Effect.fnUntraced(function* ({ changed, next, wake }: DueTimes) {
  let wokenAt = yield* Clock.currentTimeMillis
  let due: number | undefined
  const read = Effect.gen(function* () {
    // The clock may have been set back since.
    wokenAt = Math.min(wokenAt, yield* Clock.currentTimeMillis)
    due = yield* next(wokenAt)
  })
  const wait = Effect.gen(function* () {
    if (due === undefined) return yield* Effect.never
    for (;;) {
      const now = yield* Clock.currentTimeMillis
      if (now >= due) {
        wokenAt = now
        return yield* wake
      }
      yield* Effect.sleep(Math.min(due - now, longestSleepMs))
    }
  })
  return yield* Effect.forever(
    Effect.andThen(spaced(read, leastPauseMs), Effect.raceFirst(Queue.take(changed), wait))
  )
})

/** The longest sleep in milliseconds, after which the clock is read again: it may have been set forward. */
const longestSleepMs = 2000

/** The minimal pause between two reads, in milliseconds. */
const leastPauseMs = 20
