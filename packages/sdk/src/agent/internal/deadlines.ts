/**
 * Timers that cost next to nothing: one sleeper for all that wait with the same clock, however many they are.
 *
 * A timeout of its own would cost every waiting model call two fibers and a timer.
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"

/** Something that waits for a time. */
export interface Timed {
  /** When, in milliseconds of the clock that only goes forward. Written here. */
  dueAt: number
  /** How far off that was. Written here. */
  dueAfter: number
  /** Called when it is there. */
  readonly due: () => void
}

/** What waits for a time of one clock, by how far off it was when it was set: each list is in order then. */
interface Deadlines {
  readonly clock: Clock.Clock
  readonly byLength: Map<number, Set<Timed>>
  count: number
  /** Whether somebody is about to look whether anybody still waits. */
  isClosing: boolean
  sleeper: { readonly until: number; readonly fiber: Fiber.Fiber<void> } | undefined
}

/** Milliseconds since some moment. The time of day may be set back, or forth; what waits is not to notice. */
const elapsed = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

const all = new WeakMap<Clock.Clock, Deadlines>()

const of = (clock: Clock.Clock): Deadlines => {
  let deadlines = all.get(clock)
  if (deadlines === undefined) {
    deadlines = { clock, byLength: new Map(), count: 0, isClosing: false, sleeper: undefined }
    all.set(clock, deadlines)
  }
  return deadlines
}

/** Calls `fire` in so many milliseconds by the clock. Returns how to call it off. */
export const setDeadline = (clock: Clock.Clock, ms: number, fire: () => void): (() => void) => {
  const timed: Timed = { dueAt: 0, dueAfter: 0, due: fire }
  setTimed(clock, ms, timed)
  return () => unsetTimed(clock, timed)
}

/** Makes something due in so many milliseconds by the clock. */
export const setTimed = (clock: Clock.Clock, ms: number, timed: Timed): void => {
  const deadlines = of(clock)
  // A whole number takes no place of its own.
  timed.dueAt = Math.ceil(elapsed(clock) + ms)
  timed.dueAfter = ms
  const list = deadlines.byLength.get(ms) ?? new Set()
  deadlines.byLength.set(ms, list.add(timed))
  deadlines.count += 1
  if (deadlines.sleeper === undefined || deadlines.sleeper.until > timed.dueAt) sleep(deadlines, timed.dueAt)
}

/** Calls it off, unless it has been due. */
export const unsetTimed = (clock: Clock.Clock, timed: Timed): void => {
  const deadlines = of(clock)
  const list = deadlines.byLength.get(timed.dueAfter)
  if (list === undefined || !list.delete(timed)) return
  remove(deadlines, timed.dueAfter, list)
  if (deadlines.count === 0) close(deadlines)
}

/** Nothing that waits for nobody keeps a program alive; whoever waits again at once finds the sleeper still there. */
const close = (deadlines: Deadlines): void => {
  if (deadlines.isClosing) return
  deadlines.isClosing = true
  queueMicrotask(() => {
    deadlines.isClosing = false
    if (deadlines.count === 0) wakeUp(deadlines)
  })
}

const remove = (deadlines: Deadlines, ms: number, list: Set<Timed>): void => {
  deadlines.count -= 1
  if (list.size === 0) deadlines.byLength.delete(ms)
}

const wakeUp = (deadlines: Deadlines): void => {
  deadlines.sleeper?.fiber.interruptUnsafe()
  deadlines.sleeper = undefined
}

const sleep = (deadlines: Deadlines, until: number): void => {
  const { clock } = deadlines
  wakeUp(deadlines)
  const ms = Math.max(0, Math.ceil(until - elapsed(clock)))
  const due = Effect.sync(() => {
    deadlines.sleeper = undefined
    fireDue(deadlines)
  })
  // What is due at once is due when the caller has its way to call it off.
  const pause = ms === 0 ? Effect.yieldNow : clock.sleep(Duration.millis(ms))
  deadlines.sleeper = { until, fiber: Effect.runFork(Effect.andThen(pause, due)) }
}

const fireDue = (deadlines: Deadlines): void => {
  const now = elapsed(deadlines.clock)
  const due: Array<Timed> = []
  let next = Number.POSITIVE_INFINITY
  for (const [ms, list] of deadlines.byLength) {
    for (const deadline of list) {
      if (deadline.dueAt > now) {
        next = Math.min(next, deadline.dueAt)
        break
      }
      due.push(deadline)
      list.delete(deadline)
      remove(deadlines, ms, list)
    }
  }
  if (next < Number.POSITIVE_INFINITY) sleep(deadlines, next)
  for (const timed of due) timed.due()
}
