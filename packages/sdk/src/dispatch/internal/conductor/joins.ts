/**
 * Functions that wait for several runs. Interrupting such a wait stops none of the runs. `firstSuccess` and `quorum` cancel the runs that
 * are no longer needed, and return when these have ended.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { RunId } from "../../../domain/Id.ts"
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

/**
 * Emits the result of each run once, in the order in which the runs end. Fails with the first error of a run that has no result. Of several
 * handles of one run, the first counts.
 */
export const asCompleted = <Output, E>(
  handles: ReadonlyArray<AgentHandle<Output, E>>
): Stream.Stream<RunResult<Output>, HandleError | E> =>
  Stream.mergeAll(
    [...byRun(handles).values()].map(([{ done }]) => Stream.fromEffect(done)),
    { concurrency: "unbounded" }
  )

/**
 * Waits for the first run that completes, cancels the others, and returns the result of the first. Held runs are waited for.
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
 * **Details**
 *
 * Several handles of one run count as one run. It has completed as soon as one of them says so, and has not if none of them does.
 *
 * **Errors**
 *
 * - `QuorumMissed` — too few handles were given, too many runs ended without completing, or `n` is not a number. The other runs were
 *   cancelled.
 */
export const quorum = <Output, E>(
  handles: ReadonlyArray<AgentHandle<Output, E>>,
  n: number
): Effect.Effect<ReadonlyArray<Completed<Output>>, QuorumMissed> =>
  Effect.flatMap(completed(handles, n), ({ failed, of, succeeded }) =>
    succeeded.length >= n
      ? Effect.succeed(succeeded)
      : Effect.fail(new QuorumMissed({ wanted: n, completed: succeeded.length, of, runs: failed }))
  )

type Handles<Output, E> = readonly [AgentHandle<Output, E>, ...ReadonlyArray<AgentHandle<Output, E>>]

/** The handles of each run, in their order. */
const byRun = <Output, E>(
  handles: ReadonlyArray<AgentHandle<Output, E>>
): ReadonlyMap<RunId, Handles<Output, E>> => {
  const runs = new Map<RunId, Handles<Output, E>>()
  for (const handle of handles) {
    const before = runs.get(handle.runId)
    runs.set(handle.runId, before === undefined ? [handle] : [...before, handle])
  }
  return runs
}

/** Waits until `n` runs have completed or can no longer complete, and cancels the others. */
const completed = Effect.fnUntraced(function* <Output, E>(
  handles: ReadonlyArray<AgentHandle<Output, E>>,
  n: number
) {
  const runs = byRun(handles)
  const succeeded: Array<Completed<Output>> = []
  const failed: Array<{ readonly runId: RunId; readonly status: string; readonly why: string }> = []
  // Written so that it is true if `n` is NaN, which no number of runs would reach.
  const isKnown = () => succeeded.length >= n || !(runs.size - failed.length >= n)
  const known = yield* Deferred.make<void>()
  const watch = ([runId, ofRun]: readonly [RunId, Handles<Output, E>]) =>
    Effect.flatMap(endOf(ofRun), (exit) => {
      if (isKnown()) return Effect.void
      if (Exit.isSuccess(exit) && exit.value.status === "completed") succeeded.push(exit.value)
      else failed.push({ runId, ...whyOf(exit) })
      return isKnown() ? Deferred.succeed(known, undefined) : Effect.void
    })
  if (!isKnown()) {
    const watching = Effect.forEach(runs, watch, { concurrency: "unbounded", discard: true })
    yield* Effect.raceFirst(Deferred.await(known), Effect.andThen(watching, Effect.never))
  }
  const ended = new Set<string>([...succeeded, ...failed].map(({ runId }) => runId))
  yield* Effect.forEach(
    handles.filter(({ runId }) => !ended.has(runId)),
    (handle) => Effect.exit(handle.cancel("It was not needed any more.")),
    { concurrency: "unbounded", discard: true }
  )
  return { succeeded, failed, of: runs.size }
})

/** The end of a run: its completion if one of its handles reports that, otherwise the first other end that they report. */
const endOf = <Output, E>(
  handles: Handles<Output, E>
): Effect.Effect<Exit.Exit<RunResult<Output>, HandleError | E>> =>
  Effect.raceAll(
    handles.map(({ done }) =>
      Effect.flatMap(Effect.exit(done), (exit) =>
        Exit.isSuccess(exit) && exit.value.status === "completed" ? Effect.succeed(exit) : Effect.fail(exit)
      )
    )
  ).pipe(Effect.catch((exit) => Effect.succeed(exit)))

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
