/**
 * Turns of the event loop.
 *
 * SQLite and the memory store answer at once, so an operation may settle before any timer or socket has its turn. A program that repeats
 * one in a loop would then keep everything else in its process from going on: also the run that it waits for, until its lease is lost.
 * A turn is given where operations have followed each other without one; the first ones are answered at once.
 */
import * as Effect from "effect/Effect"

/** How long operations may follow each other without a turn of the event loop. */
const longestMs = 10

/** How many of them may fail: a caller that tries again at once waits for something that needs a turn. */
const mostFailures = 16

/** When an operation was first counted after the last turn; `undefined` where none was. */
let since: number | undefined
let failures = 0

const onTurn = Effect.andThen(
  Effect.yieldNow,
  Effect.sync(() => {
    since = undefined
    failures = 0
  })
)

const yieldWhenDue = (failed: boolean): Effect.Effect<void> =>
  Effect.suspend(() => {
    const now = performance.now()
    if (since === undefined) {
      since = now
      Effect.runFork(onTurn)
    }
    if (failed) failures += 1
    return failures > mostFailures || now - since > longestMs ? Effect.yieldNow : Effect.void
  })

/** Gives the event loop a turn before a failure, where one is due. */
export const yieldOnFailure = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.tapError(effect, () => yieldWhenDue(true))

/** Gives the event loop a turn before a failure or a success, where one is due. */
export const yieldOnEnd = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.tap(yieldOnFailure(effect), () => yieldWhenDue(false))
