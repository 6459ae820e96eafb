/**
 * Cheap timers: all timers of a clock share one sleeping fiber.
 *
 * With `Effect.timeout`, every waiting model call would need two fibers and a timer of its own.
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"

/** A timer, as {@link setTimed} takes it. */
export interface Timed {
  /** The time at which it is due, in milliseconds of the monotonic clock. Written by `setTimed`. */
  dueAt: number
  /** The delay that it was set with. Written by `setTimed`. */
  dueAfter: number
  /** Called when the timer is due. */
  readonly due: () => void
}

/** The timers of one clock, grouped by delay. Within a group, insertion order is the order of their times. */
interface Deadlines {
  readonly clock: Clock.Clock
  readonly byLength: Map<number, Set<Timed>>
  count: number
  /** Whether a check for remaining timers is scheduled. */
  isClosing: boolean
  sleeper: { readonly until: number; readonly fiber: Fiber.Fiber<void> } | undefined
}

/** The time of the monotonic clock in milliseconds. Changes of the system time do not affect timers. */
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

/** Calls `fire` after `ms` milliseconds of the clock. Returns a function that cancels the timer. */
export const setDeadline = (clock: Clock.Clock, ms: number, fire: () => void): (() => void) => {
  const timed: Timed = { dueAt: 0, dueAfter: 0, due: fire }
  setTimed(clock, ms, timed)
  return () => unsetTimed(clock, timed)
}

/** Sets a timer that is due after `ms` milliseconds of the clock. */
export const setTimed = (clock: Clock.Clock, ms: number, timed: Timed): void => {
  const deadlines = of(clock)
  // A small integer is stored without an allocation of its own.
  timed.dueAt = Math.ceil(elapsed(clock) + ms)
  timed.dueAfter = ms
  const list = deadlines.byLength.get(ms) ?? new Set()
  deadlines.byLength.set(ms, list.add(timed))
  deadlines.count += 1
  if (deadlines.sleeper === undefined || deadlines.sleeper.until > timed.dueAt) sleep(deadlines, timed.dueAt)
}

/** Cancels a timer, unless it was already due. */
export const unsetTimed = (clock: Clock.Clock, timed: Timed): void => {
  const deadlines = of(clock)
  const list = deadlines.byLength.get(timed.dueAfter)
  if (list === undefined || !list.delete(timed)) return
  remove(deadlines, timed.dueAfter, list)
  if (deadlines.count === 0) close(deadlines)
}

/**
 * Stops the sleeping fiber when no timer is left, because it would keep the process alive. The check is deferred, so that a timer that is
 * set right afterwards reuses the fiber.
 */
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
  // A timer of 0 ms fires after its caller has received the function that cancels it.
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
