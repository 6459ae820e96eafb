/**
 * Grants of the memory store. They are kept separately from the runs, because the record of a revocation outlives its run.
 */
import * as Result from "effect/Result"
import type { Decision } from "../../../domain/Decision.ts"
import { GrantNotFound, type Revocation, revoke, type Revoked } from "../../../domain/Grant.ts"
import { type GrantId, type RunId, runOfGrant } from "../../../domain/Id.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import type { GrantFilter, StoredGrant } from "../../StoredGrant.ts"
import { pageSize } from "../bounds.ts"
import { byTime, deletedRun, grantOf, isListed, type RestoredRevocations } from "../grants.ts"
import { inboxChanges } from "../requests.ts"
import type { Run } from "./run.ts"

/** All grants of a store, and the revocations of grants whose run was deleted. */
export interface Grants {
  readonly kept: Map<GrantId, StoredGrant>
  /** Keyed by id and time, because a later run with the same id creates grants with the same ids. */
  readonly revokedOfDeleted: Map<string, Revocation>
}

export const make = (): Grants => ({ kept: new Map(), revokedOfDeleted: new Map() })

const deletedKey = ({ at, id }: StoredGrant["grant"]): string => `${id} ${at}`

/** Adds a grant unless it is there already; as revoked, if it was revoked before its run was deleted. */
const keep = ({ kept, revokedOfDeleted }: Grants, given: StoredGrant): void => {
  const { grant } = given
  if (kept.has(grant.id)) return
  const key = deletedKey(grant)
  const revocation = revokedOfDeleted.get(key)
  revokedOfDeleted.delete(key)
  kept.set(grant.id, revocation === undefined ? given : { ...given, grant: revoke(grant, revocation) })
}

/** Adds the grant that a decision on one of a run's requests creates, if it creates one. */
export const recordGrant = (grants: Grants, run: Run, decision: Decision): void => {
  const entry = run.inbox.get(decision.requestId)
  const grant = entry === undefined ? undefined : grantOf(entry.request, decision)
  if (grant !== undefined) keep(grants, { grant, runId: run.runId, sessionId: run.sessionId })
}

/** Adds the grants of all decisions among appended events. */
export const recordGrantsOfEvents = (grants: Grants, run: Run, events: ReadonlyArray<RunEvent>): void => {
  for (const change of inboxChanges(events))
    if (change._tag === "decided") recordGrant(grants, run, change.decision)
}

/** Adds the grants of all decided requests of a restored run. */
export const recordGrantsOfRun = (grants: Grants, run: Run): void => {
  for (const { decision } of run.inbox.values())
    if (decision !== undefined) recordGrant(grants, run, decision)
}

/** The revocations among the given grants. Grants that the store does not have are added first. */
export const revokedOf = (grants: Grants, used: ReadonlyArray<StoredGrant>): ReadonlyArray<Revoked> =>
  used.flatMap((given) => {
    const { id: grantId } = given.grant
    const ofDeleted = grants.revokedOfDeleted.get(deletedKey(given.grant))
    if (ofDeleted === undefined) keep(grants, given)
    const revocation = ofDeleted ?? grants.kept.get(grantId)?.grant.revoked
    return revocation === undefined ? [] : [{ grantId, revocation }]
  })

/** Revokes one grant. The first revocation wins. */
export const revokeIn = (
  grants: Grants,
  {
    given,
    grantId,
    revocation
  }: { readonly given?: StoredGrant; readonly grantId: GrantId; readonly revocation: Revocation }
): Result.Result<StoredGrant, GrantNotFound> => {
  if (given !== undefined) keep(grants, given)
  const found = grants.kept.get(grantId)
  if (found === undefined) return Result.fail(new GrantNotFound({ grantId }))
  if (found.grant.revoked !== undefined) return Result.succeed(found)
  const revoked = { ...found, grant: revoke(found.grant, revocation) }
  grants.kept.set(grantId, revoked)
  return Result.succeed(revoked)
}

/**
 * Applies the revocations of an archive. For a run that a process of this store has claimed, only grants that this store has are revoked:
 * the run may later create other grants with the ids of the archive's.
 */
export const revokeWith = (
  grants: Grants,
  { kept, revoked }: RestoredRevocations,
  runs: ReadonlyMap<RunId, Run>
): void => {
  for (const one of kept) {
    const giver = runOfGrant(one.grant.id)
    const run = giver === undefined ? undefined : runs.get(giver)
    if (run === undefined || run.epoch === 0) keep(grants, one)
  }
  for (const one of revoked) revokeIn(grants, one)
}

/** The sorted ids of the given grants that are revoked in this store. */
export const revokedAmong = ({ kept }: Grants, given: ReadonlyArray<Revoked>): ReadonlyArray<GrantId> => {
  const ids = new Set(given.map(({ grantId }) => grantId))
  return [...ids].filter((grantId) => kept.get(grantId)?.grant.revoked !== undefined).toSorted()
}

export const list = ({ kept }: Grants, filter: GrantFilter): ReadonlyArray<StoredGrant> => {
  const after = filter.after === undefined ? undefined : kept.get(filter.after)
  return [...kept.values()]
    .filter((one) => isListed(one, filter) && (after === undefined || byTime(after, one) < 0))
    .sort(byTime)
    .slice(0, pageSize(filter.limit))
}

/** Deletes the grants of a deleted run, and keeps the record of their revocations. */
export const erase = ({ kept, revokedOfDeleted }: Grants, runId: RunId): void => {
  for (const [id, { grant, runId: giver }] of kept) {
    if (giver !== runId) continue
    kept.delete(id)
    if (grant.revoked !== undefined) {
      revokedOfDeleted.set(deletedKey(grant), { by: deletedRun, at: grant.revoked.at })
    }
  }
}
