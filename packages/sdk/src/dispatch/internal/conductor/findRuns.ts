/**
 * Finds the stored runs of a conductor by its name.
 */
import * as Effect from "effect/Effect"
import type { Runtime } from "../../../agent/Runtime.ts"
import type { RunId } from "../../../domain/Id.ts"
import { namesOf } from "../../../durable/recover.ts"
import type { RunStore } from "../../../store/RunStore.ts"
import type { RunNotFound, RunStoreError } from "../../../store/RunStoreError.ts"
import type { RunHead } from "../../../store/RunStorePort.ts"

type Store = RunStore["Service"]

/**
 * The ids of the runs that a conductor of this name has dispatched and that have not ended: first those that are running, then those that
 * are held or queued, each oldest first. The conductor is in the first event of a run, so that event is read of each run that has not ended.
 */
export const runsOf = Effect.fnUntraced(function* (
  store: Store,
  name: string,
  runtimes: ReadonlyArray<Runtime>
): Effect.fn.Return<ReadonlyArray<RunId>, RunStoreError> {
  const agents = new Set(namesOf(runtimes))
  const found: Array<RunId> = []
  for (const status of ["running", "held"] as const) {
    const heads: Array<RunHead> = []
    for (let after: RunId | undefined, isLast = false; !isLast; after = heads.at(-1)?.runId) {
      const page = yield* store.list({ status, limit: pageSize, ...(after === undefined ? {} : { after }) })
      heads.push(...page)
      isLast = page.length < pageSize
    }
    const known = heads.filter(({ agent }) => agents.has(agent)).toReversed()
    const belongs = yield* Effect.forEach(known, ({ runId }) => isOf(store, name, runId), { concurrency: 10 })
    found.push(...known.filter((_, index) => belongs[index]).map(({ runId }) => runId))
  }
  return found
})

const pageSize = 1000

/** Whether a conductor of this name has dispatched the run. A run that was removed since, or that cannot be read, is left out. */
const isOf = (store: Store, name: string, runId: RunId): Effect.Effect<boolean, RunStoreError> =>
  store.events(runId, { limit: 1 }).pipe(
    Effect.map(([first]) => first?._tag === "run.started" && first.conductor?.name === name),
    Effect.catch((error: RunNotFound | RunStoreError) =>
      error._tag === "RunNotFound" || error.reason._tag === "StoreUnreadable"
        ? Effect.succeed(false)
        : Effect.fail(error)
    )
  )
