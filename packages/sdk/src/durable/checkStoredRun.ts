/**
 * What has changed in the program since a run was stored, as a resume of that run would find it.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { BoundAgent } from "../agent/Entry.ts"
import type { RunId } from "../domain/Id.ts"
import { checkBound, type ResumeReport } from "../run/checkResume.ts"
import { withDecisions } from "../run/internal/mailEvents.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import { loadRun } from "./internal/loadRun.ts"

/**
 * Compares a stored run with one agent, as a resume would find it: with the decisions that were taken and that its journal does not hold.
 */
export const checkStoredRun = (
  runId: RunId,
  bound: BoundAgent
): Effect.Effect<ResumeReport, RunNotFound | RunStoreError, RunStore> =>
  Effect.gen(function* () {
    const { decisions, state } = yield* loadRun(yield* RunStore, runId)
    return yield* checkBound(withDecisions(state, decisions), bound)
  })
