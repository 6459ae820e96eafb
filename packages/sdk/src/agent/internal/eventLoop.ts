/**
 * Yields to the event loop, so that timers, sockets and signals are served.
 *
 * If a model responds synchronously and the store is SQLite or in memory, neither a step of a run nor an operation takes a macrotask. Runs
 * that are awaited one after another, or a program that repeats an operation until it succeeds, would then block the event loop, including
 * the renewal of leases. Steps and operations are therefore counted, and after many of them the next one waits until the event loop has
 * turned once.
 */
import * as Effect from "effect/Effect"
import { MixedScheduler } from "effect/Scheduler"

/** The number of steps that never wait. A few runs therefore take the same course regardless of time. */
const fewSteps = 64

/** The number of steps that an operation of the API counts as, such as starting a run or reading a page. */
const stepsOfOperation = 8

/** How long more than {@link fewSteps} steps may block the event loop, in milliseconds. */
const longestMs = 10

/** How many operations may fail without a turn. A caller that retries at once waits for something that needs the event loop. */
const mostFailures = 16

const macrotasks = new MixedScheduler().makeDispatcher()

/** The number of steps since the last turn of the event loop. */
let steps = 0

/** The number of failed operations since then. */
let failures = 0

/** When the first of these steps was taken, in real time: a test clock does not affect the event loop. */
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

/** Counts a step. Returns whether it has to wait for {@link turn} first. */
export const isTurnDue = (): boolean => count(1)

/** Waits until the event loop has turned. */
export const turn: Effect.Effect<void> = Effect.callback((resume) => {
  macrotasks.scheduleTask(() => resume(Effect.void), 0)
})

/** Counts a step, and waits for a turn if one is due. */
export const letTurn: Effect.Effect<void> = Effect.suspend(() => (isTurnDue() ? turn : Effect.void))

const afterSuccess: Effect.Effect<void> = Effect.suspend(() => (count(stepsOfOperation) ? turn : Effect.void))

const afterFailure: Effect.Effect<void> = Effect.suspend(() => {
  const isDue = count(stepsOfOperation)
  failures += 1
  return isDue || failures > mostFailures ? turn : Effect.void
})

/** Counts an operation that fails, and waits for a turn if one is due. */
export const turnOnFailure = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.tapError(effect, () => afterFailure)

/** Counts an operation when it ends, and waits for a turn if one is due. */
export const turnOnEnd = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.tap(turnOnFailure(effect), () => afterSuccess)
