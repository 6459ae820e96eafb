/**
 * Drives the runs that are ready: orphaned runs, and held runs with a new decision, message or cancellation request, or with a request that
 * has expired or is about to expire.
 *
 * A run that only waits is not read, so many held runs cost nothing. `recover` drives each ready run once; a `Worker` continues to do
 * so.
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
import { describeRefusal } from "../agent/internal/userCode.ts"
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
import { notAmong } from "./internal/requireAgent.ts"
import { recoverShape } from "./internal/shapes.ts"
import type { RecoverOptions } from "./storedInput.ts"

export type { WorkError } from "./internal/continueStored.ts"

/** A ready run, and the outcome of driving it. */
export interface Recovered {
  readonly runId: RunId
  readonly agent: string
  readonly reason: ReadyRun["reason"]
  /**
   * The run's status afterwards: `running` if the run was suspended, or waits for what `error` names; `error` if the run itself failed.
   * Absent if driving it failed.
   */
  readonly status?: Status
  /**
   * Why driving it failed: for example, another process owns the run, a definition is missing, or the store failed. Without a `status`, the
   * run stays at its last commit. With one, everything that can continue in this program has, and `error` names the agent or the tool that
   * the rest waits for: the program lacks it, the tool refuses the context of the run, or there is no source of the secrets that its call
   * needs.
   */
  readonly error?: WorkError | RunDefect
}

/**
 * Drives the ready runs of these runtimes' agents once, up to `limit` (default: 100; outcomes with an `error` do not count), each run until
 * it is held, has ended or is suspended, and returns the outcomes.
 *
 * **When to use**
 *
 * In a program that is started at intervals, or in a test. Use `Worker.run` in a process that stays up.
 *
 * **Details**
 *
 * If a process died in the middle of a run, the calls that it had started and that are read-only or idempotent are repeated. For any other
 * started call, the tool's `reconcile` determines the outcome; if there is none, or it does not know, an `inDoubt` request is opened. A run
 * that another process claims meanwhile is left to that process.
 *
 * **Errors**
 *
 * - `OptionsInvalid` — an option's key or value is wrong; for a misspelt key, the error names the nearest one.
 * - `RunStoreError` — the ready runs could not be read. A failure of one run is in its entry, and stops no other run.
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
  let after: string | undefined
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
    after = cursorAfter(page, size)
    if (after === undefined) break
  }
  return recovered
})

/** The number of ready runs in a page. */
export const pageSize = 100

/** Reads a page of the ready runs of these runtimes' agents, after the cursor `after`. */
export const readyPage = (
  runtimes: ReadonlyArray<Runtime>,
  store: RunStore["Service"],
  limit: number,
  after: string | undefined
): Effect.Effect<ReadonlyArray<ReadyRun>, RunStoreError> =>
  store.ready({ agents: namesOf(runtimes), limit, ...(after === undefined ? {} : { after }) })

/**
 * The cursor of the next page; `undefined` if the page is not full, and is therefore the last. For a store of another package that has no
 * cursors, the id of the page's last run.
 */
export const cursorAfter = (page: ReadonlyArray<ReadyRun>, limit: number): string | undefined => {
  const last = page.length < limit ? undefined : page.at(-1)
  return last?.cursor ?? last?.runId
}

/** The names under which runs of these agents may be stored: names and aliases. */
export const namesOf = (runtimes: ReadonlyArray<Runtime>): ReadonlyArray<string> =>
  runtimes.flatMap(({ bound }) => [bound.agent.name, ...(bound.agent.options.aliases ?? [])])

/** Drives a ready run until it is held, has ended or is suspended. Never fails: the error is in the result. */
export const takeUp = (
  runtimes: ReadonlyArray<Runtime>,
  store: RunStore["Service"],
  ready: ReadyRun,
  options: RunOptions & { readonly suspension?: Suspension | undefined }
): Effect.Effect<Recovered> =>
  Effect.suspend(() => {
    const runtime = runtimes.find(({ bound }) => answersTo(bound.agent, ready.agent))
    if (runtime === undefined) return Effect.succeed({ ...ready, error: notAmong(runtimes, ready.agent) })
    const token = Cancellation.make(options.cancellation)
    const work = { ...options, runtime, store, token }
    return Effect.map(
      Effect.exit(continueStored(work, { runId: ready.runId, "~queued": "keep" })),
      (exit): Recovered => {
        token.release()
        if (Exit.isSuccess(exit)) {
          const { status } = exit.value
          // The run stays running, for a program that has the missing definition.
          const [missing] = status === "running" ? missingIn(runtime, exit.value) : []
          return { ...ready, status, ...(missing === undefined ? {} : { error: missing.problem }) }
        }
        const error = Cause.findErrorOption(exit.cause)
        if (error._tag === "Some") return { ...ready, error: error.value }
        return {
          ...ready,
          error: new RunDefect({ description: describeRefusal(runtime, Cause.squash(exit.cause)) })
        }
      }
    )
  })
