/**
 * A process that works on stored runs: it takes up runs that need a worker, as soon as it does, and suspends its runs when it is stopped.
 *
 * Any number of workers may share a store. Each run is driven by one of them at a time; what one leaves behind when it dies,
 * another takes up when the lease has run out. A worker stops when its fiber is interrupted: a program that ends on SIGTERM interrupts it,
 * as `NodeRuntime.runMain` does.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import * as Cancellation from "../agent/Cancellation.ts"
import type { Suspension } from "../agent/Cancellation.ts"
import { atLeast, millisOr, requireOptions } from "../agent/internal/soundOptions.ts"
import { callOut, notify } from "../agent/internal/userCode.ts"
import type { Runtime } from "../agent/Runtime.ts"
import { lines, messageOf, sentence } from "../domain/Display.ts"
import type { RunId } from "../domain/Id.ts"
import { callable, shapeOf } from "../domain/internal/misfits.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { RunOptions } from "../run/runInput.ts"
import { RunStore } from "../store/RunStore.ts"
import type { ReadyRun } from "../store/RunStorePort.ts"
import { pageSize, readyPage, type Recovered, takeUp } from "./recover.ts"

/** How a worker works. */
export interface WorkerOptions extends Pick<RunOptions, "onUpdate"> {
  /** Runs at the same time. Default 10. */
  readonly concurrency?: number
  /** Poll interval for expired leases and requests, which send no notification. Default 2 seconds. */
  readonly pollInterval?: Duration.Input
  /** How long what is going on may take to finish when the worker is stopped, before it is stopped too. Default 2 seconds. */
  readonly drainTimeout?: Duration.Input
  /** Called before a run is taken up, with the token that cancels it. */
  readonly onTakingUp?: (runId: RunId, cancellation: Cancellation.CancellationToken) => void
  /** Called with each run that was taken up, and its outcome. */
  readonly onTakenUp?: (run: Recovered) => void
}

const shape = shapeOf<WorkerOptions>({
  onUpdate: callable,
  concurrency: "anything",
  pollInterval: "anything",
  drainTimeout: "anything",
  onTakingUp: callable,
  onTakenUp: callable
})

/**
 * Works until it is interrupted.
 *
 * **Details**
 *
 * Interrupting it suspends its runs: nothing new is begun, what is going on gets `drainTimeout` to finish and then the
 * tools' grace period to stop, and the runs stay in the store for another worker; they are not cancelled. A store that fails
 * for a while is tried again; a run that cannot be taken up (a tool is gone, say) is left alone for longer and longer.
 *
 * It works on one run at a time at least (a `concurrency` that is no number is the default), and looks every 50 ms at most.
 *
 * **Errors**
 *
 * - `OptionsInvalid` — a key that there is not; the error names the nearest one. Nothing else ends it.
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
  /** The runs that it works on, and what is done when each is over. */
  readonly running: Map<RunId, Deferred.Deferred<void>>
  /** Runs whose last attempt failed, and until when they are left alone. */
  readonly resting: Map<RunId, Rest>
  /** Holds something when there may be work. */
  readonly wake: Queue.Queue<void>
}

interface Rest {
  readonly failures: number
  readonly until: number
  /** The only reason for which the run is not taken up; without one, it is left alone altogether. */
  readonly only?: Recovered["reason"]
}

const start = Effect.fnUntraced(function* (runtimes: ReadonlyArray<Runtime>, options: WorkerOptions) {
  const worker: Worker = {
    runtimes,
    store: yield* RunStore,
    options,
    suspension: { soon: Cancellation.make(), now: Cancellation.make() },
    running: new Map(),
    resting: new Map(),
    wake: yield* Queue.sliding<void>(1)
  }
  return worker
})

const work = (worker: Worker): Effect.Effect<never> => {
  const { options, store, wake } = worker
  // A store that stops sending notifications is still polled.
  const changes = Effect.exit(Stream.runForEach(store.changes, () => Queue.offer(wake, undefined)))
  const ticks = Effect.forever(
    Effect.andThen(
      Queue.offer(wake, undefined),
      Effect.sleep(atLeast(shortestPollMs, millisOr(options.pollInterval, 2000), 2000))
    )
  )
  const looking = Effect.forever(Effect.andThen(Queue.take(wake), logDefects(takeUpReady(worker))))
  // All three go on for ever; interrupting the worker interrupts them, and not the runs.
  return Effect.andThen(Effect.all([changes, ticks, looking], { concurrency: "unbounded" }), Effect.never)
}

/** A defect of a store or of a logger must not end the work on all runs: the worker looks again at its next tick. */
const logDefects = (looking: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.catchDefect(looking, (defect) =>
    Effect.ignoreCause(
      Effect.logWarning(sentence`The worker cannot look for runs: ${lines(messageOf(defect))}`)
    )
  )

/** Takes up as many runs as there is room for. */
const takeUpReady = Effect.fnUntraced(function* (worker: Worker) {
  const { options, resting, running, runtimes, store, wake } = worker
  const room = atLeast(1, options.concurrency, 10) - running.size
  if (room <= 0) return
  const now = yield* Clock.currentTimeMillis
  for (const [runId, { until }] of resting) {
    // Long after its time it is as good as new.
    if (now > until + longestRestMs) resting.delete(runId)
  }
  const isResting = ({ reason, runId }: ReadyRun) => {
    const rest = resting.get(runId)
    return rest !== undefined && rest.until > now && (rest.only === undefined || rest.only === reason)
  }
  const isFree = (run: ReadyRun) => !running.has(run.runId) && !isResting(run)
  const free: Array<ReadyRun> = []
  let after: RunId | undefined
  // Runs that cannot be taken up, however many, are not in the way of those that can.
  do {
    const page: ReadonlyArray<ReadyRun> = yield* readyPage(runtimes, store, pageSize, after).pipe(
      Effect.catch((error) =>
        Effect.as(Effect.logWarning(`The worker cannot ask the store: ${error.message}`), [])
      )
    )
    free.push(...page.filter(isFree))
    after = page.length < pageSize ? undefined : page.at(-1)?.runId
  } while (after !== undefined && free.length < room)
  for (const run of free.slice(0, room)) {
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
      Effect.andThen(Queue.offer(wake, undefined)),
      Effect.ensuring(
        Effect.suspend(() => {
          if (running.get(run.runId) === over) running.delete(run.runId)
          return Deferred.succeed(over, undefined)
        })
      )
    )
    const begin = Effect.suspend(() => {
      callOut(() => options.onTakingUp?.(run.runId, cancellation))
      // Before it is begun: it can be over, and off the books, before this fiber goes on.
      running.set(run.runId, over)
      // On its own, so that it can be suspended in its own time when the worker is stopped.
      return Effect.forkDetach(driven)
    })
    // Or the books could name a run that was never begun, and stopping would wait for it.
    yield* Effect.uninterruptible(begin)
  }
})

const shortestPollMs = 50

const longestRestMs = 5 * 60_000

/** Records the outcome of a run, and how long a run that failed is left alone. */
const recordOutcome = Effect.fnUntraced(function* (worker: Worker, recovered: Recovered) {
  const { options, resting, running } = worker
  const { error, reason, runId } = recovered
  running.delete(runId)
  notify(options.onTakenUp, recovered)
  const isWarned = error === undefined && reason === "expiring"
  if (!isWarned && (error === undefined || isOwnedElsewhere(error))) {
    resting.delete(runId)
    return
  }
  const before = resting.get(runId)
  const failures = (before?.failures ?? 0) + 1
  const isOrdinary = isWarned || isRaceLost(error)
  // A race is lost now and then, and each request expires once; what does so again and again is damaged.
  const counted = isOrdinary ? failures - ordinaryRaces : failures
  const restMs = counted <= 0 ? 0 : Math.min(longestRestMs, 1000 * 2 ** counted)
  const until = (yield* Clock.currentTimeMillis) + restMs
  resting.set(runId, { failures, until, ...(isWarned ? { only: reason } : {}) })
  if (restMs === 0 || error === undefined) return
  yield* Effect.logWarning(
    `The run ${runId} cannot be taken up, and is left alone for ${Math.round(restMs / 1000)} s: ${error.message}`
  )
})

/** Another process has it: nothing is wrong. */
const isOwnedElsewhere = ({ _tag }: NonNullable<Recovered["error"]>): boolean =>
  _tag === "RunBusy" || _tag === "LeaseLost"

/** Another process was faster, or has removed it: nothing is wrong, unless it happens over and over. */
const isRaceLost = (error: Recovered["error"]): boolean =>
  error?._tag === "RunConflict" || error?._tag === "RunNotFound"

/** How often in a row this may happen to a run before it is left alone for a while. */
const ordinaryRaces = 3

/** Suspends the runs; whatever does not stop in time is left to its lease. */
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
