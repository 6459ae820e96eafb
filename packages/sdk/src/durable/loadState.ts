/**
 * Reading the state of a stored run.
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
 * The state that a run's journal amounts to, also of a sub-agent's run. Decisions that the journal does not hold yet are not in it;
 * revocations of its grants are, wherever they were made.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 */
export const loadState = (runId: RunId): Effect.Effect<RunState, RunNotFound | RunStoreError, RunStore> =>
  Effect.flatMap(RunStore, (store) =>
    Effect.flatMap(findSubRun(store, runId), (found) =>
      found === undefined
        ? Effect.flatMap(loadRun(store, runId), ({ state }) => withRevocations(store, state))
        : withRevocations(store, found.state)
    )
  )

/** The state with what the store knows of its grants. */
const withRevocations = Effect.fnUntraced(function* (store: RunStore["Service"], state: RunState) {
  if (state.grants.every(({ revoked }) => revoked !== undefined)) return state
  const grants: Array<RunState["grants"][number]> = []
  for (const grant of state.grants) {
    const [row] = grant.revoked === undefined ? yield* store.grants({ grantId: grant.id }) : []
    grants.push(row?.grant.revoked === undefined ? grant : revoke(grant, row.grant.revoked))
  }
  return { ...state, grants }
})
