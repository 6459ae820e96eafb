/**
 * The rules of grants: pure functions, shared by the memory store and the SQL store.
 */
import type { Decision } from "../../domain/Decision.ts"
import * as Grant from "../../domain/Grant.ts"
import { type RunId, runOfGrant } from "../../domain/Id.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import { type RunEvent, unwrap } from "../../domain/RunEvent.ts"
import type { RestoredRun } from "../RunStorePort.ts"
import type { GrantFilter, StoredGrant } from "../StoredGrant.ts"

/** The grant that a decision on a request creates, or `undefined`. */
export const grantOf = (request: Interruption, decision: Decision): Grant.Grant | undefined =>
  request._tag === "approval" && decision._tag === "approve" && decision.grant !== undefined
    ? Grant.fromApproval(request, { ...decision, grant: decision.grant }, { tools: {} })
    : undefined

/** Whether a grant meets a filter. */
export const isListed = ({ grant, runId, sessionId }: StoredGrant, filter: GrantFilter): boolean =>
  (filter.runId ?? runId) === runId &&
  (filter.sessionId ?? sessionId) === sessionId &&
  (filter.grantId ?? grant.id) === grant.id &&
  (filter.tool ?? grant.tool) === grant.tool &&
  (filter.agent ?? grant.agent) === grant.agent

/** The order of lists: by time, then by id. */
export const byTime = (one: StoredGrant, other: StoredGrant): number =>
  one.grant.at - other.grant.at ||
  (one.grant.id < other.grant.id ? -1 : one.grant.id === other.grant.id ? 0 : 1)

/** The `by` of a revocation whose run was deleted. The name of the person who revoked is deleted with the run. */
export const deletedRun = "a run that was deleted"

/** The revocations in an archive. */
export interface RestoredRevocations {
  /** Revoked grants, as rows of the other store. */
  readonly kept: ReadonlyArray<StoredGrant>
  /** All revocations, including those that only a journal contains. The first of a grant counts. */
  readonly revoked: ReadonlyArray<Grant.Revoked>
}

/** Collects the revocations of grants that these runs gave. Grants of other runs are ignored. */
export const revocationsWith = (
  runs: ReadonlyArray<RestoredRun>,
  given: ReadonlyArray<StoredGrant>
): RestoredRevocations => {
  const sessions = new Map(runs.map(({ runId, sessionId }) => [runId, sessionId]))
  const isTheirs = (grantId: string) => {
    const runId = runOfGrant(grantId)
    return runId !== undefined && sessions.has(runId)
  }
  const kept = given.flatMap((one): ReadonlyArray<StoredGrant> => {
    const sessionId = sessions.get(one.runId)
    const isMeant = one.grant.revoked !== undefined && isTheirs(one.grant.id)
    return sessionId === undefined || !isMeant ? [] : [{ ...one, sessionId }]
  })
  const recorded = runs.flatMap(({ events, rest = [] }) => [...events, ...rest].flatMap(revocationIn))
  const stored = kept.flatMap(({ grant: { id: grantId, revoked: revocation } }) =>
    revocation === undefined ? [] : [{ grantId, revocation }]
  )
  return { kept, revoked: [...stored, ...recorded.filter(({ grantId }) => isTheirs(grantId))] }
}

/** Selects the revocations of grants that the given runs gave. */
export const revocationsOf = (
  { kept, revoked }: RestoredRevocations,
  runs: ReadonlySet<RunId>
): RestoredRevocations => {
  const isOf = (grantId: string) => {
    const giver = runOfGrant(grantId)
    return giver !== undefined && runs.has(giver)
  }
  return {
    kept: kept.filter(({ grant }) => isOf(grant.id)),
    revoked: revoked.filter(({ grantId }) => isOf(grantId))
  }
}

const revocationIn = (wrapped: RunEvent): ReadonlyArray<Grant.Revoked> => {
  const { event } = unwrap(wrapped)
  if (event._tag !== "grant.revoked") return []
  const { at, by, grantId, principal } = event
  return [{ grantId, revocation: { by, ...(principal === undefined ? {} : { principal }), at } }]
}
