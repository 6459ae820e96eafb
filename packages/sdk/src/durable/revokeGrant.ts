/**
 * Revokes grants in a store.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { GrantNotFound } from "../domain/Grant.ts"
import type { GrantId, RunId } from "../domain/Id.ts"
import { kindOf } from "../domain/internal/untyped.ts"
import { attribute, type Principal, type PrincipalInvalid } from "../domain/Principal.ts"
import { revocations } from "../domain/revokeInState.ts"
import { children, isEnded, type RunState } from "../domain/RunState.ts"
import { redactText } from "../run/internal/redact.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import type { StoredGrant } from "../store/StoredGrant.ts"
import { contained, Scrubber } from "../tool/Scrubber.ts"
import { appendOnce, bestEffort } from "./internal/appendOnce.ts"
import { loadRun } from "./internal/loadRun.ts"

/**
 * Revokes a grant and returns it: no call starts under it any more, in any run, fork or process. Calls that it allowed and that have
 * not started need approval again. The run may be driven by any process meanwhile.
 *
 * **Details**
 *
 * `runId` is any run that has the grant: the run in which it was given, a later run of the session, or a fork. The journals of runs
 * that have the grant record the revocation when they continue. If a grant is revoked twice, the first revocation stands.
 *
 * **Gotchas**
 *
 * A call starts with the commit of `tool.started`. A body whose start was committed before the revocation runs.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the run's id.
 * - `GrantNotFound` — neither the run nor its session has this grant.
 * - `RunStoreError` — the revocation was not stored: revoke again. If it is stored and the journal cannot record it yet, this function
 *   succeeds and logs a warning.
 * - `PrincipalInvalid` — pass who revokes the grant; the names `expiry` and `policy` are reserved.
 *
 * @category running
 * @since 0.1.0
 */
export const revokeGrant: (
  runId: string,
  grantId: string,
  by: string | Principal
) => Effect.Effect<StoredGrant, RunNotFound | GrantNotFound | PrincipalInvalid | RunStoreError, RunStore> =
  Effect.fn("fermata.revokeGrant")(function* (ofRun: string, id: string, who: string | Principal) {
    const runId = ofRun as RunId
    const grantId = id as GrantId
    const store = yield* RunStore
    const scrubber = contained(yield* Scrubber)
    const at = yield* Clock.currentTimeMillis
    const { by, principal } = yield* Effect.fromResult(attribute(who))
    const revocation = {
      by: redactText(scrubber, by),
      ...(principal === undefined
        ? {}
        : { principal: { ...principal, id: redactText(scrubber, principal.id) } }),
      at
    }
    const head = yield* store.head(runId)
    if (typeof grantId !== "string") {
      return yield* new GrantNotFound({ grantId: "", runId, given: kindOf(grantId) })
    }
    const [row] = yield* store.grants({ grantId })
    const isOfRun = row !== undefined && (row.runId === runId || row.sessionId === head.sessionId)
    const given = isOfRun ? undefined : yield* givenIn(store, runId, grantId)
    if (!isOfRun && given === undefined) return yield* new GrantNotFound({ grantId, runId })
    const revoked = yield* store.revokeGrant({
      grantId,
      revocation,
      ...(given === undefined ? {} : { given })
    })
    // If a process drives the run, its journal records the revocation when the grant would be used.
    const record = appendOnce(runId, ({ state }, at) =>
      isEnded(state)
        ? []
        : revocations(state, [{ grantId, revocation: revoked.grant.revoked ?? revocation }], at)
    )
    yield* bestEffort(
      Effect.catchTag(record, ["RunBusy", "RunConflict", "LeaseLost"], () => Effect.void),
      `The revocation of the grant ${grantId} is stored, and not yet in the journal of the run ${runId}`
    )
    return revoked
  })

/** Finds the grant in the run's own state: a fork has the grants of its original, and an earlier version stored no rows. */
const givenIn = Effect.fnUntraced(function* (store: RunStore["Service"], runId: RunId, grantId: GrantId) {
  const { state } = yield* loadRun(store, runId)
  const grant = find(state, grantId)
  return grant === undefined ? undefined : { grant, runId, sessionId: state.sessionId }
})

const find = (state: RunState, grantId: GrantId): RunState["grants"][number] | undefined => {
  const own = state.grants.find(({ id }) => id === grantId)
  if (own !== undefined) return own
  for (const { child } of children(state)) {
    const inside = find(child, grantId)
    if (inside !== undefined) return inside
  }
  return undefined
}
