/**
 * Cancelling a stored run, whoever works on it.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { RunId } from "../domain/Id.ts"
import { text } from "../domain/Message.ts"
import { isEnded } from "../domain/RunState.ts"
import { RunStore } from "../store/RunStore.ts"
import type { LeaseLost, RunConflict, RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import { contained, Scrubber } from "../tool/Scrubber.ts"
import { appendOnce } from "./internal/appendOnce.ts"
import { redactText } from "../run/internal/redact.ts"
import { cancellation } from "../run/internal/cancellation.ts"
import { foldDecisions } from "../run/internal/eventsOf.ts"
import { findSubRun, type SubRun } from "./internal/subRun.ts"

/**
 * Cancels a run. A run that is held, or that nobody works on, is over when this returns; one that another process works on is
 * stopped by that process, at its next step. A run that has ended stays as it is.
 *
 * **Details**
 *
 * With the run of a sub-agent, that one ends, with everything under it, and the agent that it works for is told so. That is done by
 * whoever works on the run that it lies in; of one that is held, by whoever takes it up for it: a worker, a handle, or who resumes it.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 *
 * @category running
 * @since 0.1.0
 */
export const cancelRun: (
  runId: RunId,
  reason: string
) => Effect.Effect<void, RunNotFound | RunConflict | LeaseLost | RunStoreError, RunStore> = Effect.fn(
  "fermata.cancelRun"
)(function* (runId: RunId, given: string) {
  const store = yield* RunStore
  const scrubber = contained(yield* Scrubber)
  const reason = redactText(scrubber, given)
  const found = yield* findSubRun(store, runId)
  if (found !== undefined) return yield* endSubRun(store, found, reason)
  yield* store.requestCancel(runId, reason)
  yield* Effect.catchTag(
    appendOnce(runId, ({ decisions, state }, at, first = reason) => {
      if (isEnded(state)) return []
      // What was decided before belongs to what is said of it.
      const decided = foldDecisions(state, decisions)
      return [...decided.events, ...cancellation(decided.state, at, first)]
    }),
    "RunBusy",
    () => Effect.void
  )
})

/** Asks for the end of a sub-agent, with a message that is kept until somebody has brought it about. */
const endSubRun = (store: RunStore["Service"], { root, state }: SubRun, reason: string) => {
  if (isEnded(state) || isEnded(root)) return Effect.void
  const { runId } = state
  return store.send(root.runId, { content: [text(reason)], to: runId, ends: true }).pipe(
    Effect.asVoid,
    // It has ended meanwhile, with everything in it.
    Effect.catchTag("RunEnded", () => Effect.void),
    // Nothing of it is the caller's.
    Effect.catchTag("MessageInvalid", Effect.die)
  )
}
