/**
 * Runs the operations and workers of a Fermata, and suspends their runs when it is closed.
 */
import * as Cause from "effect/Cause"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as ManagedRuntime from "effect/ManagedRuntime"
import * as Cancellation from "../../agent/Cancellation.ts"
import type { Suspension } from "../../agent/Cancellation.ts"
import { turnOnEnd, turnOnFailure } from "../../agent/internal/eventLoop.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import type { RunId } from "../../domain/Id.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import { cancelRun } from "../../durable/cancelRun.ts"
import * as Worker from "../../durable/Worker.ts"
import type { ModelClient } from "../../model/ModelClient.ts"
import type { RunStore } from "../../store/RunStore.ts"
import { FermataClosed } from "./FermataClosed.ts"
import type { PromptOptions, WorkOptions } from "./options.ts"

export const makeWork = (options: {
  readonly managed: ManagedRuntime.ManagedRuntime<RunStore | ModelClient, unknown>
  readonly runtimes: ReadonlyArray<Runtime>
  readonly suspension: Suspension
  readonly drainTimeout: Duration.Input
  readonly publish: (update: RunUpdate) => void
}) => {
  const { drainTimeout, managed, publish, runtimes, suspension } = options
  const running = new Set<Promise<unknown>>()
  /** The tokens that cancel the runs that this process drives, by run id. */
  const tokens = new Map<string, Cancellation.CancellationToken>()
  const workers = new Set<AbortController>()
  const isClosed = () => suspension.soon.reason() !== undefined

  /** Registers an operation that has to end before the store is closed. */
  const keep = <P extends Promise<unknown>>(promise: P): P => {
    running.add(promise)
    const done = () => running.delete(promise)
    promise.then(done, done)
    return promise
  }
  const run = <A, E>(effect: Effect.Effect<A, E, RunStore | ModelClient>): Promise<A> =>
    isClosed()
      ? Effect.runPromise(turnOnFailure(Effect.fail(new FermataClosed())))
      : keep(managed.runPromise(turnOnEnd(effect)))
  const closed = Effect.callback<never, FermataClosed>((resume) => {
    const stop = suspension.soon.onCancel(() => resume(Effect.fail(new FermataClosed())))
    return Effect.sync(stop)
  })
  /** Makes an `onUpdate` that publishes each update and passes it on to the caller's. */
  const publishing =
    (given: Pick<PromptOptions, "onUpdate"> = {}) =>
    (update: RunUpdate) => {
      publish(update)
      return given.onUpdate?.(update)
    }
  return {
    isClosed,
    run,
    /** Runs an operation that may wait for long, and interrupts it when the Fermata is closed. */
    runUntilClosed: <A, E>(effect: Effect.Effect<A, E, RunStore | ModelClient>): Promise<A> =>
      run(Effect.raceFirst(effect, closed)),
    publishing,
    /** The options of a drive, with a token through which `cancel` reaches the run. */
    runOptions: (given: Pick<PromptOptions, "signal" | "onUpdate">) => {
      const token = given.signal === undefined ? Cancellation.make() : Cancellation.fromSignal(given.signal)
      const onUpdate = publishing(given)
      return {
        cancellation: token,
        suspension,
        onUpdate: (update: RunUpdate) => {
          if (update._tag !== "event" || !endsDrive(update.event)) tokens.set(update.runId, token)
          else tokens.delete(update.runId)
          return onUpdate(update)
        }
      }
    },
    /** Cancels a run: at once if this process drives it, and through the store in every case. */
    cancel: (runId: string, reason: string): Promise<void> => {
      tokens.get(runId)?.cancel(reason)
      // A held run, which nothing drives, may have left commands in the background.
      const stopLeft = Effect.forEach(
        runtimes,
        (runtime) => runtime["~sandboxes"].cancelled(runId as RunId),
        {
          discard: true
        }
      )
      return run(Effect.andThen(cancelRun(runId as RunId, reason), stopLeft))
    },
    /** Runs a worker until the signal is aborted or the Fermata is closed. */
    work: async ({ signal, ...given }: WorkOptions): Promise<void> => {
      const stop = new AbortController()
      const abort = () => stop.abort()
      if (isClosed()) throw new FermataClosed()
      if (signal?.aborted === true) return
      signal?.addEventListener("abort", abort, { once: true })
      workers.add(stop)
      const working = Worker.run(runtimes, {
        drainTimeout,
        ...given,
        onUpdate: publishing(given),
        onTakingUp: (runId, cancellation) => {
          tokens.set(runId, cancellation)
          given.onTakingUp?.(runId, cancellation)
        },
        onTakenUp: (run) => {
          tokens.delete(run.runId)
          return given.onTakenUp?.(run)
        }
      })
      const exit = await keep(managed.runPromiseExit(working, { signal: stop.signal }))
      workers.delete(stop)
      signal?.removeEventListener("abort", abort)
      // A worker ends only if it is stopped, or by a defect.
      if (!stop.signal.aborted && Exit.isFailure(exit)) throw Cause.squash(exit.cause)
    },
    /** Refuses new operations, suspends the runs, and closes the store. `others` closes the background runs meanwhile. */
    close: async (others: () => Promise<void>): Promise<void> => {
      for (const worker of workers) worker.abort()
      suspension.soon.cancel("The program is being closed.")
      // `Effect.sleep` instead of `setTimeout`, which fires at once for a delay of more than 25 days.
      const drained = Effect.runFork(
        Effect.andThen(
          Effect.sleep(drainTimeout),
          Effect.sync(() => suspension.now.cancel("The program was closed."))
        )
      )
      await others()
      await Promise.allSettled(running)
      drained.interruptUnsafe()
      await managed.dispose()
    }
  }
}

const endsDrive = ({ _tag }: RunEvent): boolean =>
  _tag === "run.held" || _tag === "run.completed" || _tag === "run.cancelled" || _tag === "run.failed"
