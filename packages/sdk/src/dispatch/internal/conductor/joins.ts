/**
 * Functions that wait for several runs. Interrupting such a wait stops none of the runs. `firstSuccess` and `quorum` cancel the runs that
 * are no longer needed, and return when these have ended.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { Completed, RunResult } from "../../../run/RunResult.ts"
import type { AgentHandle, HandleError } from "../../AgentHandle.ts"
import { NoneSucceeded, QuorumMissed } from "../../DispatchError.ts"

/**
 * Waits until all runs have ended, and returns their results in the order of the handles.
 *
 * **Errors**
 *
 * - The first error of a run that has no result. The other runs continue.
 */
export const all = <Output, E>(
  handles: ReadonlyArray<AgentHandle<Output, E>>
): Effect.Effect<ReadonlyArray<RunResult<Output>>, HandleError | E> =>
  Effect.all(
    handles.map(({ done }) => done),
    { concurrency: "unbounded" }
  )

/** Emits the results of the runs in the order in which they end. Fails with the first error of a run that has no result. */
export const asCompleted = <Output, E>(
  handles: ReadonlyArray<AgentHandle<Output, E>>
): Stream.Stream<RunResult<Output>, HandleError | E> =>
  Stream.mergeAll(
    handles.map(({ done }) => Stream.fromEffect(done)),
    { concurrency: "unbounded" }
  )

/**
 * Waits for the first run that completes, cancels the others, and returns its result. Held runs are waited for.
 *
 * **Errors**
 *
 * - `NoneSucceeded` — no run completed; the error has the status of each.
 */
export const firstSuccess = <Output, E>(
  handles: ReadonlyArray<AgentHandle<Output, E>>
): Effect.Effect<Completed<Output>, NoneSucceeded> =>
  Effect.flatMap(completed(handles, 1), ({ failed, succeeded: [first] }) =>
    first === undefined ? Effect.fail(new NoneSucceeded({ runs: failed })) : Effect.succeed(first)
  )

/**
 * Waits until `n` of the runs have completed, cancels the others, and returns the `n` results in the order in which the runs ended.
 *
 * **Errors**
 *
 * - `QuorumMissed` — too many runs ended without completing, or `n` is not a number. The other runs were cancelled.
 */
export const quorum = <Output, E>(
  handles: ReadonlyArray<AgentHandle<Output, E>>,
  n: number
): Effect.Effect<ReadonlyArray<Completed<Output>>, QuorumMissed> =>
  Effect.flatMap(completed(handles, n), ({ failed, succeeded }) =>
    succeeded.length >= n
      ? Effect.succeed(succeeded)
      : Effect.fail(
          new QuorumMissed({ wanted: n, completed: succeeded.length, of: handles.length, runs: failed })
        )
  )

/** Waits until `n` runs have completed or can no longer complete, and cancels the others. */
const completed = Effect.fnUntraced(function* <Output, E>(
  handles: ReadonlyArray<AgentHandle<Output, E>>,
  n: number
) {
  const succeeded: Array<Completed<Output>> = []
  const failed: Array<{
    readonly runId: AgentHandle["runId"]
    readonly status: string
    readonly why: string
  }> = []
  // Written so that it is true if `n` is NaN, which no number of runs would reach.
  const isKnown = () => succeeded.length >= n || !(handles.length - failed.length >= n)
  const known = yield* Deferred.make<void>()
  const watch = ({ done, runId }: AgentHandle<Output, E>) =>
    Effect.flatMap(Effect.exit(done), (exit) => {
      if (isKnown()) return Effect.void
      if (Exit.isSuccess(exit) && exit.value.status === "completed") succeeded.push(exit.value)
      else failed.push({ runId, ...whyOf(exit) })
      return isKnown() ? Deferred.succeed(known, undefined) : Effect.void
    })
  if (!isKnown()) {
    const watching = Effect.forEach(handles, watch, { concurrency: "unbounded", discard: true })
    yield* Effect.raceFirst(Deferred.await(known), Effect.andThen(watching, Effect.never))
  }
  const ended = new Set<string>([...succeeded, ...failed].map(({ runId }) => runId))
  yield* Effect.forEach(
    handles.filter(({ runId }) => !ended.has(runId)),
    (handle) => Effect.exit(handle.cancel("It was not needed any more.")),
    { concurrency: "unbounded", discard: true }
  )
  return { succeeded, failed }
})

const whyOf = (
  exit: Exit.Exit<RunResult<unknown>, unknown>
): { readonly status: string; readonly why: string } => {
  if (Exit.isFailure(exit)) {
    const error = Cause.squash(exit.cause)
    return { status: "error", why: error instanceof Error ? error.message : String(error) }
  }
  const result = exit.value
  if (result.status === "error") return { status: "error", why: result.error.message }
  return { status: result.status, why: result.status === "cancelled" ? result.reason : "" }
}
