/**
 * Reading the state of a stored run.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { RunId } from "../domain/Id.ts"
import type { RunState } from "../domain/RunState.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import { loadRun } from "./internal/loadRun.ts"
import { findSubRun } from "./internal/subRun.ts"

/**
 * The state that a run's journal amounts to, also of a sub-agent's run. Decisions that nobody has taken to the run yet are not in it.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 */
export const loadState = (runId: RunId): Effect.Effect<RunState, RunNotFound | RunStoreError, RunStore> =>
  Effect.flatMap(RunStore, (store) =>
    Effect.flatMap(findSubRun(store, runId), (found) =>
      found === undefined
        ? Effect.map(loadRun(store, runId), ({ state }) => state)
        : Effect.succeed(found.state)
    )
  )
