/**
 * Turns of the event loop.
 *
 * Where a model answers without waiting for anything, and the store is a file or in memory, neither a step of a run nor an operation takes
 * a macrotask. Runs that are awaited one after another, or a program that repeats an operation until it succeeds, would keep timers,
 * sockets and signals waiting for as long as they go on: also the run that the program waits for, until its lease is lost. So steps and
 * operations count themselves, and one that follows many others waits until the event loop has turned once.
 */
import * as Effect from "effect/Effect"
import { MixedScheduler } from "effect/Scheduler"

/** Steps that are always taken in one go: what a few runs do depends on no time. */
const fewSteps = 64

/** How many steps an operation from outside counts for, which opens a run or reads a page. */
const stepsOfOperation = 8

/** How long, in milliseconds, the event loop may be kept from turning by more steps than {@link fewSteps}. */
const longestMs = 10

/** How many operations may fail without a turn: a caller that tries again at once waits for something that needs one. */
const mostFailures = 16

const macrotasks = new MixedScheduler().makeDispatcher()

/** Steps since the event loop has turned. */
let steps = 0

/** Failed operations since then. */
let failures = 0

/** When the first step was taken; by the process's own clock, because it is about real time also where a test sets another. */
let since = 0

const turned = (): void => {
  steps = 0
  failures = 0
}

const count = (taken: number): boolean => {
  if (steps === 0) {
    since = performance.now()
    macrotasks.scheduleTask(turned, 0)
  }
  steps += taken
  return steps > fewSteps && performance.now() - since >= longestMs
}

/** Counts a step. Says whether it has to wait for {@link turn} first. */
export const isTurnDue = (): boolean => count(1)

/** Waits until the event loop has turned. */
export const turn: Effect.Effect<void> = Effect.callback((resume) => {
  macrotasks.scheduleTask(() => resume(Effect.void), 0)
})

/** Counts a step, and waits if it has to. */
export const letTurn: Effect.Effect<void> = Effect.suspend(() => (isTurnDue() ? turn : Effect.void))

const afterSuccess: Effect.Effect<void> = Effect.suspend(() => (count(stepsOfOperation) ? turn : Effect.void))

const afterFailure: Effect.Effect<void> = Effect.suspend(() => {
  const isDue = count(stepsOfOperation)
  failures += 1
  return isDue || failures > mostFailures ? turn : Effect.void
})

/** Counts an operation that fails, and waits if it has to. */
export const turnOnFailure = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.tapError(effect, () => afterFailure)

/** Counts an operation, and waits if it has to. */
export const turnOnEnd = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.tap(turnOnFailure(effect), () => afterSuccess)
