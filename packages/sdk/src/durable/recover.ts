/**
 * Taking up what was left: runs whose process died, runs with new decisions, requests whose time is up.
 *
 * A run that only waits is never touched, however many wait. `recover` looks once; `Worker` keeps looking.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { answersTo } from "../agent/BoundAgent.ts"
import * as Cancellation from "../agent/Cancellation.ts"
import type { Suspension } from "../agent/Cancellation.ts"
import { missingIn } from "../agent/internal/definitions.ts"
import { atLeast, requireOptions } from "../agent/internal/soundOptions.ts"
import { describe } from "../agent/internal/userCode.ts"
import type { Runtime } from "../agent/Runtime.ts"
import type { RunId } from "../domain/Id.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import { RunDefect } from "../domain/RunError.ts"
import type { Status } from "../domain/RunState.ts"
import type { RunOptions } from "../run/runInput.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import type { ReadyRun } from "../store/RunStorePort.ts"
import { continueStored, suspensionOf, type WorkError } from "./internal/continueStored.ts"
import { recoverShape } from "./internal/shapes.ts"
import type { RecoverOptions } from "./storedInput.ts"

export type { WorkError } from "./internal/continueStored.ts"

/** A run that was taken up, and what came of it. */
export interface Recovered {
  readonly runId: RunId
  readonly agent: string
  readonly reason: ReadyRun["reason"]
  /** What the run is now; `undefined` when it could not be taken up, or not to an end. */
  readonly status?: Status
  /**
   * Why it could not: another process has it, a tool is gone, the store failed. Without a status the run stays as it is; with one, all
   * that can go on here has, and this is what the rest waits for.
   */
  readonly error?: WorkError | RunDefect
}

/**
 * Takes up every run of these agents that needs a worker, and drives each until it is held or over.
 *
 * **Details**
 *
 * After a process died in the middle of a run: read-only and idempotent calls are repeated; a side-effecting call that was
 * started is looked up with the tool's own `reconcile`, or else asked about (`inDoubt`). A run that another process has taken
 * up meanwhile is left to it.
 *
 * **Errors**
 *
 * - `OptionsInvalid` — a key that there is not; the error names the nearest one.
 * - `RunStoreError` — the store could not be asked. What goes wrong with one run is in its entry, and stops no other.
 *
 * @category running
 * @since 0.1.0
 */
export const recover: (
  runtimes: ReadonlyArray<Runtime>,
  options?: RecoverOptions
) => Effect.Effect<ReadonlyArray<Recovered>, OptionsInvalid | RunStoreError, RunStore> = Effect.fn(
  "fermata.recover"
)(function* (runtimes: ReadonlyArray<Runtime>, options: RecoverOptions = {}) {
  yield* requireOptions("recover", options, recoverShape)
  const { concurrency, limit, onUpdate } = options
  const hooks = {
    ...(onUpdate === undefined ? {} : { onUpdate }),
    suspension: suspensionOf(options)
  }
  const store = yield* RunStore
  const seen = new Set<RunId>()
  const recovered: Array<Recovered> = []
  let room = atLeast(0, limit, 100)
  let after: RunId | undefined
  while (room > 0) {
    const size = Math.min(pageSize, room)
    const page: ReadonlyArray<ReadyRun> = yield* readyPage(runtimes, store, size, after)
    const fresh = page.filter(({ runId }) => !seen.has(runId))
    for (const { runId } of fresh) seen.add(runId)
    const done = yield* Effect.forEach(fresh, (run) => takeUp(runtimes, store, run, hooks), {
      concurrency: atLeast(1, concurrency, 10)
    })
    recovered.push(...done)
    room -= done.filter(({ error }) => error === undefined).length
    if (page.length < size) break
    after = page.at(-1)?.runId
  }
  return recovered
})

/** Runs to look at together. */
export const pageSize = 100

/** A page of the runs that need a worker. */
export const readyPage = (
  runtimes: ReadonlyArray<Runtime>,
  store: RunStore["Service"],
  limit: number,
  after: RunId | undefined
): Effect.Effect<ReadonlyArray<ReadyRun>, RunStoreError> =>
  store.ready({ agents: namesOf(runtimes), limit, ...(after === undefined ? {} : { after }) })

/** The names by which the runs of these agents may be stored. */
const namesOf = (runtimes: ReadonlyArray<Runtime>): ReadonlyArray<string> =>
  runtimes.flatMap(({ bound }) => [bound.agent.name, ...(bound.agent.options.aliases ?? [])])

/** Takes up one run. */
export const takeUp = (
  runtimes: ReadonlyArray<Runtime>,
  store: RunStore["Service"],
  ready: ReadyRun,
  options: RunOptions & { readonly suspension?: Suspension | undefined }
): Effect.Effect<Recovered> =>
  Effect.suspend(() => {
    const runtime = runtimes.find(({ bound }) => answersTo(bound.agent, ready.agent))
    if (runtime === undefined) return Effect.succeed(ready)
    const token = Cancellation.make(options.cancellation)
    const work = { ...options, runtime, store, token }
    return Effect.map(Effect.exit(continueStored(work, { runId: ready.runId })), (exit): Recovered => {
      token.release()
      if (Exit.isSuccess(exit)) {
        const { status } = exit.value
        // It is left at work for a program that has what is missing here.
        const [missing] = status === "running" ? missingIn(runtime.bound, exit.value) : []
        return { ...ready, status, ...(missing === undefined ? {} : { error: missing.problem }) }
      }
      const error = Cause.findErrorOption(exit.cause)
      if (error._tag === "Some") return { ...ready, error: error.value }
      return { ...ready, error: new RunDefect({ description: describe(runtime, Cause.squash(exit.cause)) }) }
    })
  })
