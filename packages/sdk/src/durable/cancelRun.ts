/**
 * Cancelling a stored run, whichever process works on it.
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
 * Cancels a run. A run that is held, or that no process works on, is over when this returns; one that another process works on is
 * stopped by that process, at its next step. A run that has ended stays as it is.
 *
 * **Details**
 *
 * With the run of a sub-agent, that one ends, with everything under it, and the agent that it works for learns of it. That is done by
 * whoever works on the run that it lies in; of one that is held, by whoever takes it up for it: a worker, a handle, or who resumes it.
 * Where that run has failed, the cancellation is kept, and acted on before anything else if it is resumed; so is that of a run that has
 * failed itself.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 * - `RunStoreError` — the store did not take the cancellation: cancel again. One that it has taken is no failure any more: where the run
 *   cannot be ended at once, a warning is logged, and a worker, or who resumes the run, ends it.
 *
 * @category running
 * @since 0.1.0
 */
export const cancelRun: (
  runId: RunId,
  reason: string
) => Effect.Effect<void, RunNotFound | RunStoreError, RunStore> = Effect.fn("fermata.cancelRun")(function* (
  runId: RunId,
  reason: string
) {
  const end = yield* requestEnd(runId, reason)
  yield* bestEffort(end, `The cancellation of the run ${runId} is stored, and has not ended it yet`)
})
