/**
 * A process that drives runs as soon as they are ready, and suspends its runs when it is stopped.
 *
 * Any number of workers may share a store. A run is driven by one of them at a time; when a worker dies, another one claims its runs
 * after their leases have expired. A worker stops when its fiber is interrupted: a program that ends on SIGTERM interrupts it, as
 * `NodeRuntime.runMain` does.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import * as Cancellation from "../agent/Cancellation.ts"
import type { Suspension } from "../agent/Cancellation.ts"
import { atLeast, millisOr, requireOptions } from "../agent/internal/soundOptions.ts"
import { callOut, notify } from "../agent/internal/userCode.ts"
import type { Runtime } from "../agent/Runtime.ts"
import { lines, messageOf, sentence } from "../domain/Display.ts"
import type { RunId } from "../domain/Id.ts"
import { atLeastOne, callable, shapeOf } from "../domain/internal/misfits.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { RunOptions } from "../run/runInput.ts"
import { RunStore } from "../store/RunStore.ts"
import type { ReadyRun } from "../store/RunStorePort.ts"
import { wakeWhenDue } from "./internal/dueTimes.ts"
import { cursorAfter, namesOf, pageSize, readyPage, type Recovered, takeUp } from "./recover.ts"

/** Options of a worker. */
export interface WorkerOptions extends Pick<RunOptions, "onUpdate"> {
  /** Maximum number of runs to drive at the same time; at least 1. Default: 10. */
  readonly concurrency?: number
  /** Poll interval for expired leases, which send no notification; at least 50 ms. Default: 2 seconds. */
  readonly pollInterval?: Duration.Input
  /**
   * Time in which running operations may finish when the worker is stopped, before they are interrupted. Default: 2 seconds; for a worker
   * of a `Fermata`, the Fermata's `drainTimeout`.
   */
  readonly drainTimeout?: Duration.Input
  /** Called before a run is driven, with a token that cancels the run. If it throws, the run is driven all the same. */
  readonly onTakingUp?: (runId: RunId, cancellation: Cancellation.CancellationToken) => void
  /**
   * Called after a run was driven, with the outcome. Its `reason` is `orphaned` for a submitted run, which no process has driven before. If
   * it throws, the worker continues.
   */
  readonly onTakenUp?: (run: Recovered) => void
}

const shape = shapeOf<WorkerOptions>({
  onUpdate: callable,
  concurrency: atLeastOne,
  pollInterval: "anything",
  drainTimeout: "anything",
  onTakingUp: callable,
  onTakenUp: callable
})

/**
 * Drives the ready runs of these runtimes' agents, up to `concurrency` (default: 10) at a time, until it is interrupted.
 *
 * **Details**
 *
 * An interruption suspends the runs and does not cancel them: no operation starts, running operations get `drainTimeout` to finish and
 * then the runtimes' grace period to stop, and the runs stay in the store for another worker. A run whose code does not stop in time
 * becomes available when its lease expires.
 *
 * If the store fails, the worker polls it again. If a run cannot be driven, because a tool is missing for example, the worker retries
 * it at growing intervals of up to 5 minutes.
 *
 * **Errors**
 *
 * - `OptionsInvalid` — an option's key or value is wrong; for a misspelt key, the error names the nearest one. The worker fails
 *   with no other error.
 *
 * @category running
 * @since 0.1.0
 */
export const run: (
  runtimes: ReadonlyArray<Runtime>,
  options?: WorkerOptions
) => Effect.Effect<never, OptionsInvalid, RunStore> = (runtimes, options = {}) =>
  Effect.andThen(
    Effect.suspend(() => requireOptions("Worker.run", options, shape)),
    Effect.acquireUseRelease(
      Effect.suspend(() => start(runtimes, options)),
      work,
      stop
    )
  )

interface Worker {
  readonly runtimes: ReadonlyArray<Runtime>
  readonly store: RunStore["Service"]
  readonly options: WorkerOptions
  readonly suspension: Suspension
  /** The runs that it drives, each with a Deferred that completes when its drive is over. */
  readonly running: Map<RunId, Deferred.Deferred<void>>
  /** The runs that failed recently, and when they are retried. */
  readonly retries: Map<RunId, Retry>
  /** Has an element when there may be ready runs. */
  readonly wake: Queue.Queue<void>
  /** Has an element when the next due time may have changed. */
  readonly changed: Queue.Queue<void>
}

/** The delay of a run after failures. */
interface Retry {
  readonly failures: number
  readonly until: number
  /** The reason of `ReadyRun` that the delay applies to. Default: all reasons. */
  readonly only?: Recovered["reason"]
}

const start = Effect.fnUntraced(function* (runtimes: ReadonlyArray<Runtime>, options: WorkerOptions) {
  const worker: Worker = {
    runtimes,
    store: yield* RunStore,
    options,
    suspension: { soon: Cancellation.make(), now: Cancellation.make() },
    running: new Map(),
    retries: new Map(),
    wake: yield* Queue.sliding<void>(1),
    changed: yield* Queue.sliding<void>(1)
  }
  return worker
})

const work = (worker: Worker): Effect.Effect<never> => {
  const { changed, options, runtimes, store, wake } = worker
  const onChange = Effect.andThen(Queue.offer(changed, undefined), Queue.offer(wake, undefined))
  // If the stream of notifications ends, the store is still polled.
  const changes = Effect.exit(Stream.runForEach(store.changes, () => onChange))
  const agents = namesOf(runtimes)
  // A failure is left to the polls, which log it.
  const next = (after: number) => Effect.orElseSucceed(store.nextDue({ agents, after }), () => undefined)
  const due = wakeWhenDue({ next, changed, wake: Queue.offer(wake, undefined) })
  const ticks = Effect.forever(
    Effect.andThen(
      Queue.offer(wake, undefined),
      Effect.sleep(atLeast(shortestPollMs, millisOr(options.pollInterval, 2000), 2000))
    )
  )
  const polling = Effect.forever(Effect.andThen(Queue.take(wake), logDefects(takeUpReady(worker))))
  // An interruption of the worker interrupts these loops, and not the runs.
  const loops = [due, changes, ticks, polling]
  return Effect.andThen(Effect.all(loops, { concurrency: "unbounded" }), Effect.never)
}

/** A defect of a store or of a logger must not stop the worker: it continues at the next tick. */
const logDefects = (polling: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.catchDefect(polling, (defect) =>
    Effect.ignoreCause(
      Effect.logWarning(sentence`The worker cannot look for runs: ${lines(messageOf(defect))}`)
    )
  )

/** Starts to drive ready runs, up to the limit of concurrency. */
const takeUpReady = Effect.fnUntraced(function* (worker: Worker) {
  const { options, retries, running, runtimes, store, wake } = worker
  const room = atLeast(1, options.concurrency, 10) - running.size
  if (room <= 0) return
  const now = yield* Clock.currentTimeMillis
  for (const [runId, { until }] of retries) {
    // Failures in the distant past no longer count.
    if (now > until + maxDelayMs) retries.delete(runId)
  }
  const isDelayed = ({ reason, runId }: ReadyRun) => {
    const retry = retries.get(runId)
    return retry !== undefined && retry.until > now && (retry.only === undefined || retry.only === reason)
  }
  const isFree = (run: ReadyRun) => !running.has(run.runId) && !isDelayed(run)
  const free: Array<ReadyRun> = []
  let after: string | undefined
  // Runs that are not retried yet must not hide the runs after them, so pages are read until enough are found.
  do {
    const page: ReadonlyArray<ReadyRun> = yield* readyPage(runtimes, store, pageSize, after).pipe(
      Effect.catch((error) =>
        Effect.as(Effect.logWarning(`The worker cannot read the store: ${error.message}`), [])
      )
    )
    free.push(...page.filter(isFree))
    after = cursorAfter(page, pageSize)
  } while (after !== undefined && free.length < room)
  // At random, so that workers that read the same page rarely claim the same runs, and a worker with little room takes each reason in turn.
  for (const run of (yield* Random.shuffle(free)).slice(0, room)) {
    const { onUpdate } = options
    const cancellation = Cancellation.make()
    const hooks = {
      suspension: worker.suspension,
      cancellation,
      ...(onUpdate === undefined ? {} : { onUpdate })
    }
    const over = Deferred.makeUnsafe<void>()
    const driven = takeUp(runtimes, store, run, hooks).pipe(
      Effect.flatMap((recovered) => recordOutcome(worker, recovered)),
      Effect.ensuring(
        Effect.suspend(() => {
          running.delete(run.runId)
          return Effect.andThen(Deferred.succeed(over, undefined), Queue.offer(wake, undefined))
        })
      )
    )
    const begin = Effect.suspend(() => {
      callOut(() => options.onTakingUp?.(run.runId, cancellation))
      // Set before the fork: the fiber can end, and delete the entry, before this one continues.
      running.set(run.runId, over)
      // Detached, so that `stop` can suspend it with its own timeouts.
      return Effect.forkDetach(driven)
    })
    // Otherwise `running` could contain a run that never started, and `stop` would wait for it.
    yield* Effect.uninterruptible(begin)
  }
})

const shortestPollMs = 50

const maxDelayMs = 5 * 60_000

/** Reports the outcome of a drive, and sets the delay after a failure. */
const recordOutcome = Effect.fnUntraced(function* (worker: Worker, recovered: Recovered) {
  const { options, retries } = worker
  const { error, reason, runId } = recovered
  notify(options.onTakenUp, recovered)
  const isWarned = error === undefined && reason === "expiring"
  if (!isWarned && (error === undefined || isOwnedElsewhere(error))) {
    retries.delete(runId)
    return
  }
  const before = retries.get(runId)
  const failures = (before?.failures ?? 0) + 1
  const isOrdinary = isWarned || isRaceLost(error)
  // A lost race is ordinary, and each request expires once; a run that repeats either without end is damaged.
  const counted = isOrdinary ? failures - ordinaryRaces : failures
  const delayMs = counted <= 0 ? 0 : Math.min(maxDelayMs, 1000 * 2 ** counted)
  const until = (yield* Clock.currentTimeMillis) + delayMs
  retries.set(runId, { failures, until, ...(isWarned ? { only: reason } : {}) })
  if (delayMs === 0 || error === undefined) return
  yield* Effect.logWarning(
    `The run ${runId} cannot be driven, and is retried after ${Math.round(delayMs / 1000)} s: ${error.message}`
  )
})

/** Another process owns the run; this is not a failure. */
const isOwnedElsewhere = ({ _tag }: NonNullable<Recovered["error"]>): boolean =>
  _tag === "RunBusy" || _tag === "LeaseLost"

/** Another process was faster, or removed the run; this is a failure only if it is repeated. */
const isRaceLost = (error: Recovered["error"]): boolean =>
  error?._tag === "RunConflict" || error?._tag === "RunNotFound"

/** The number of lost races in a row after which a run is delayed. */
const ordinaryRaces = 3

/** Suspends the runs. A run that does not stop in time stays leased until its lease expires. */
const stop = Effect.fnUntraced(function* ({ options, running, runtimes, suspension }: Worker) {
  const over = Effect.suspend(() =>
    Effect.forEach([...running.values()], Deferred.await, { concurrency: "unbounded", discard: true })
  )
  suspension.soon.cancel("The worker is being stopped.")
  yield* Effect.timeoutOption(over, millisOr(options.drainTimeout, 2000))
  suspension.now.cancel("The worker was stopped.")
  const grace = runtimes.map(({ options }) => Duration.toMillis(options.cancelGrace ?? "2 seconds"))
  yield* Effect.timeoutOption(over, Math.max(0, ...grace) + 500)
})
