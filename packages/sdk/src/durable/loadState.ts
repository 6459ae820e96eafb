/**
 * Reads the state of a stored run.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import { revoke } from "../domain/Grant.ts"
import type { RunId } from "../domain/Id.ts"
import type { RunState } from "../domain/RunState.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import { loadRun } from "./internal/loadRun.ts"
import { findSubRun } from "./internal/subRun.ts"

/**
 * Reads a run and returns the state that is folded from its journal; the id may be that of a sub-agent's run. Decisions and messages that
 * the journal does not contain yet are not included. Revocations of the run's own grants are, even if the journal does not contain them.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 * - `RunStoreError` — the store failed, or the journal is damaged; see its `reason`.
 */
export const loadState = (runId: string): Effect.Effect<RunState, RunNotFound | RunStoreError, RunStore> =>
  Effect.flatMap(RunStore, (store) =>
    Effect.flatMap(findSubRun(store, runId as RunId), (found) =>
      found === undefined
        ? Effect.flatMap(loadRun(store, runId as RunId), ({ state }) => withRevocations(store, state))
        : withRevocations(store, found.state)
    )
  )

/** Adds the revocations that the store has of the state's grants. */
const withRevocations = Effect.fnUntraced(function* (store: RunStore["Service"], state: RunState) {
  if (state.grants.every(({ revoked }) => revoked !== undefined)) return state
  const grants: Array<RunState["grants"][number]> = []
  for (const grant of state.grants) {
    const [row] = grant.revoked === undefined ? yield* store.grants({ grantId: grant.id }) : []
    grants.push(row?.grant.revoked === undefined ? grant : revoke(grant, row.grant.revoked))
  }
  return { ...state, grants }
})
