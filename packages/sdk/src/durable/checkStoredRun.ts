/**
 * Checks whether a program can still resume a stored run after the program's definitions have changed.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { BoundAgent } from "../agent/Entry.ts"
import type { Runtime } from "../agent/Runtime.ts"
import type { RunId } from "../domain/Id.ts"
import { checkBound, type ResumeReport } from "../run/checkResume.ts"
import { withDecisions } from "../run/internal/mailEvents.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import { loadRun } from "./internal/loadRun.ts"

/**
 * Compares a stored run with an agent, as `checkResume` does, and returns what has changed and what prevents resuming the run. Decisions
 * that the journal does not contain yet are included. With a runtime, its source of secrets is asked for those of open calls, and its
 * sandbox provider is asked whether it accepts the run's sandbox. Fails with `RunNotFound` for the id of a sub-agent's run.
 */
export const checkStoredRun = (
  runId: RunId,
  program: BoundAgent | (Pick<Runtime, "bound" | "secrets"> & Partial<Pick<Runtime, "~sandboxes">>)
): Effect.Effect<ResumeReport, RunNotFound | RunStoreError, RunStore> =>
  Effect.gen(function* () {
    const { decisions, state } = yield* loadRun(yield* RunStore, runId)
    const after = withDecisions(state, decisions)
    return yield* "bound" in program ? checkBound(after, program.bound, program) : checkBound(after, program)
  })
