/**
 * Cancels a stored run, also one that another process drives.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { RunId } from "../domain/Id.ts"
import type { RunStore } from "../store/RunStore.ts"
import type { RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import { bestEffort } from "./internal/appendOnce.ts"
import { requestEnd } from "./internal/requestEnd.ts"

/**
 * Cancels a run. A run that is held, or that no process drives, is ended by this call. A run that a process drives is cancelled by that
 * process as soon as the store notifies it, and otherwise when it next writes to the store or renews the lease, which it does every third
 * of `leaseTtl`. A completed or cancelled run does not change.
 *
 * **Details**
 *
 * With the id of a sub-agent's run, that run ends with everything under it, and its lead receives a result that says so. The process that
 * drives the root ends it; if the root is held, the worker, handle or caller that continues the root does. If the run or its root has
 * failed, the cancellation is stored, and takes effect before anything else if the run is resumed.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 * - `RunStoreError` — the cancellation was not stored: cancel again. If the cancellation is stored and cannot end the run at once, this
 *   function succeeds and logs a warning, and a worker, a handle or the next caller that continues the run ends the run.
 *
 * @category running
 * @since 0.1.0
 */
export const cancelRun: (
  runId: string,
  reason: string
) => Effect.Effect<void, RunNotFound | RunStoreError, RunStore> = Effect.fn("fermata.cancelRun")(function* (
  id: string,
  reason: string
) {
  const runId = id as RunId
  const end = yield* requestEnd(runId, reason)
  yield* bestEffort(end, `The cancellation of the run ${runId} is stored, and has not ended it yet`)
})
