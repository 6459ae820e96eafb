/**
 * The rows of grants: the grant and its revocation as JSON, and copies of their fields as columns for queries.
 */
import * as Schema from "effect/Schema"
import { Grant, revoke, Revocation } from "../../../domain/Grant.ts"
import { GrantId, RunId, SessionId } from "../../../domain/Id.ts"
import type { StoredGrant } from "../../StoredGrant.ts"
import type { SqlAccess } from "./access.ts"
import { type RowKind, displayId } from "./damage.ts"
import { isSameTime, Time, SafeInteger } from "./rows.ts"

const GrantRow = Schema.Struct({
  grant_id: GrantId,
  run_id: RunId,
  /** Empty if the run was deleted. */
  session_id: Schema.Union([SessionId, Schema.Literal("")]),
  /** The session in the head of the run; `null` if the run was deleted. */
  run_session: Schema.NullOr(SessionId),
  agent: Schema.String,
  tool: Schema.String,
  scope: Schema.Literals(["run", "session"]),
  given_at: SafeInteger,
  expires_at: Schema.NullOr(SafeInteger),
  /** `null` if the run was deleted; the row then only records that the grant was revoked. */
  data: Schema.NullOr(Schema.fromJsonString(Grant)),
  revoked_at: Schema.NullOr(Time),
  revocation: Schema.NullOr(Schema.fromJsonString(Revocation))
})
type GrantRow = typeof GrantRow.Type

/** The columns of a grant, with the session of its run. */
export const grantColumns = ({ sql }: SqlAccess) =>
  sql.literal(`grant_id, run_id, session_id,
    (SELECT session_id FROM fermata_runs AS run WHERE run.run_id = fermata_grants.run_id) AS run_session,
    agent, tool, scope, given_at, expires_at, data, revoked_at, revocation`)

/** A decoded row. */
export interface GrantEntry extends Pick<GrantRow, "given_at" | "revocation" | "revoked_at"> {
  readonly grantId: GrantId
  /** Absent if the run was deleted. */
  readonly stored?: StoredGrant
}

/** Rows of grants. The columns must agree with the grant and its revocation. */
export const grantKind: RowKind<GrantRow, GrantEntry> = {
  row: GrantRow,
  what: ({ grant_id, run_id }) => `the grant ${displayId(grant_id)} of the run ${displayId(run_id)}`,
  agreements: (row) => {
    const { data, revocation } = row
    // Only a revoked grant keeps a row after its run was deleted.
    if (data === null) {
      return { data: row.revoked_at !== null && revocation === null && row.session_id === "" }
    }
    return {
      grant_id: row.grant_id === data.id,
      session_id: row.session_id === (row.run_session ?? row.session_id) && row.session_id !== "",
      agent: data.agent === undefined || row.agent === data.agent,
      tool: row.tool === data.tool,
      scope: row.scope === data.scope,
      given_at: isSameTime(row.given_at, data.at),
      expires_at: isSameTime(row.expires_at, data.expiresAt),
      revoked_at: isSameTime(row.revoked_at, revocation?.at)
    }
  },
  make: ({ data, given_at, grant_id, revocation, revoked_at, run_id: runId, session_id: sessionId }) => {
    const grant = data === null || revocation === null ? data : revoke(data, revocation)
    return {
      grantId: grant_id,
      given_at,
      revocation,
      revoked_at,
      ...(grant === null || sessionId === "" ? {} : { stored: { grant, runId, sessionId } })
    }
  }
}
