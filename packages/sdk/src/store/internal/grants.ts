/**
 * Grants as every store keeps them. Pure, so that the memory store and the SQL store cannot come to differ.
 */
import type { Decision } from "../../domain/Decision.ts"
import * as Grant from "../../domain/Grant.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import type { GrantFilter, StoredGrant } from "../StoredGrant.ts"

/** The grant that a decision on a request creates, if it does. */
export const grantOf = (request: Interruption, decision: Decision): Grant.Grant | undefined =>
  request._tag === "approval" && decision._tag === "approve" && decision.grant !== undefined
    ? Grant.fromApproval(request, { ...decision, grant: decision.grant }, { tools: {} })
    : undefined

/** Whether a filter lists a grant. */
export const isListed = ({ grant, runId, sessionId }: StoredGrant, filter: GrantFilter): boolean =>
  (filter.runId === undefined || filter.runId === runId) &&
  (filter.sessionId === undefined || filter.sessionId === sessionId) &&
  (filter.grantId === undefined || filter.grantId === grant.id) &&
  (filter.tool === undefined || filter.tool === grant.tool) &&
  (filter.agent === undefined || filter.agent === grant.agent)

/** The order of a list: by time, then by id. */
export const byTime = (one: StoredGrant, other: StoredGrant): number =>
  one.grant.at - other.grant.at ||
  (one.grant.id < other.grant.id ? -1 : one.grant.id === other.grant.id ? 0 : 1)
