/**
 * The grants of the memory store. They are kept beside the runs: what is left of one that was revoked outlives its run.
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

/** All grants of a store, and which were revoked of those whose run was deleted. */
export interface Grants {
  readonly kept: Map<GrantId, StoredGrant>
  /** By id and time: a later run of the same id gives grants of the same ids. */
  readonly revokedOfDeleted: Map<string, Revocation>
}

export const make = (): Grants => ({ kept: new Map(), revokedOfDeleted: new Map() })

const leftKey = ({ at, id }: StoredGrant["grant"]): string => `${id} ${at}`

/** Keeps a grant that is not kept yet: revoked, where it was revoked before its run was deleted. */
const keep = ({ kept, revokedOfDeleted }: Grants, given: StoredGrant): void => {
  const { grant } = given
  if (kept.has(grant.id)) return
  const key = leftKey(grant)
  const revocation = revokedOfDeleted.get(key)
  revokedOfDeleted.delete(key)
  kept.set(grant.id, revocation === undefined ? given : { ...given, grant: revoke(grant, revocation) })
}

/** Keeps the grant that a decision on one of a run's requests creates, if it does. */
export const recordGrant = (grants: Grants, run: Run, decision: Decision): void => {
  const entry = run.inbox.get(decision.requestId)
  const grant = entry === undefined ? undefined : grantOf(entry.request, decision)
  if (grant !== undefined) keep(grants, { grant, runId: run.runId, sessionId: run.sessionId })
}

/** The same for all decisions among events that were appended. */
export const recordGrantsOfEvents = (grants: Grants, run: Run, events: ReadonlyArray<RunEvent>): void => {
  for (const change of inboxChanges(events))
    if (change._tag === "decided") recordGrant(grants, run, change.decision)
}

/** The same for all requests of a run that was restored. */
export const recordGrantsOfRun = (grants: Grants, run: Run): void => {
  for (const { decision } of run.inbox.values())
    if (decision !== undefined) recordGrant(grants, run, decision)
}

export const revokedOf = (grants: Grants, used: ReadonlyArray<StoredGrant>): ReadonlyArray<Revoked> =>
  used.flatMap((given) => {
    const { id: grantId } = given.grant
    const left = grants.revokedOfDeleted.get(leftKey(given.grant))
    if (left === undefined) keep(grants, given)
    const revocation = left ?? grants.kept.get(grantId)?.grant.revoked
    return revocation === undefined ? [] : [{ grantId, revocation }]
  })

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

/** Revokes grants. Of a run that went on by itself here only those that it gave: others of their ids will be given here. */
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

/** Those of these grants that are revoked, by id. */
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

/** Deletes the grants of a run that is deleted; that one was revoked is kept. */
export const erase = ({ kept, revokedOfDeleted }: Grants, runId: RunId): void => {
  for (const [id, { grant, runId: giver }] of kept) {
    if (giver !== runId) continue
    kept.delete(id)
    if (grant.revoked !== undefined) {
      revokedOfDeleted.set(leftKey(grant), { by: deletedRun, at: grant.revoked.at })
    }
  }
}
