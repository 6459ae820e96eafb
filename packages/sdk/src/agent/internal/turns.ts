/**
 * Letting the event loop turn.
 *
 * Where a model answers without waiting for anything, and the store is a file, a step takes no macrotask: runs that are awaited one after
 * another, or beside each other, would keep timers, sockets and signals waiting for as long as they go on. So each step counts itself,
 * and one that comes after many others, and some milliseconds, waits until the event loop has turned once.
 */
import * as Effect from "effect/Effect"
import { MixedScheduler } from "effect/Scheduler"

/** Steps that are always taken in one go: what a few runs do depends on no time. */
const fewSteps = 64

/** How long the event loop may be kept from turning by more than those. */
const longestMs = 10

const macrotasks = new MixedScheduler().makeDispatcher()

/** Steps since the event loop has turned. */
let steps = 0

/** When the first of them was taken. */
let since = 0

const turned = (): void => {
  steps = 0
}

/** Counts a step. Says whether it has to wait for {@link turn} first. */
export const isTurnDue = (): boolean => {
  steps += 1
  if (steps === 1) {
    since = performance.now()
    macrotasks.scheduleTask(turned, 0)
  }
  return steps > fewSteps && performance.now() - since >= longestMs
}

/** Waits until the event loop has turned. */
export const turn: Effect.Effect<void> = Effect.callback((resume) => {
  macrotasks.scheduleTask(() => resume(Effect.void), 0)
})

/** Counts a step, and waits if it has to. */
export const letTurn: Effect.Effect<void> = Effect.suspend(() => (isTurnDue() ? turn : Effect.void))
