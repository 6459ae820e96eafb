/**
 * The rows of the grants: a grant, who revoked it, and copies of what both say, by which they are found.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Grant, revoke, Revocation } from "../../../domain/Grant.ts"
import { GrantId, RunId, SessionId } from "../../../domain/Id.ts"
import type { RunStoreError } from "../../RunStoreError.ts"
import type { StoredGrant } from "../../StoredGrant.ts"
import { readAll, type RowKind, shown, sort, type Sorted } from "./damage.ts"
import { isSameTime, Time, Whole } from "./rows.ts"

const grantFields = {
  grant_id: GrantId,
  run_id: RunId,
  /** Empty where the run was deleted. */
  session_id: Schema.Union([SessionId, Schema.Literal("")]),
  /** That of the run, by its own entry; `null` where there is none. */
  run_session: Schema.NullOr(SessionId),
  agent: Schema.String,
  tool: Schema.String,
  scope: Schema.Literals(["run", "session"]),
  given_at: Whole,
  expires_at: Schema.NullOr(Whole),
  /** What a run that was deleted leaves of a revoked grant has none. */
  data: Schema.NullOr(Schema.fromJsonString(Grant)),
  revoked_at: Schema.NullOr(Time),
  revocation: Schema.NullOr(Schema.fromJsonString(Revocation))
}
const GrantRow = Schema.Struct(grantFields)
type GrantRow = typeof GrantRow.Type

/** The columns that do not say what the grant and its revocation say. */
const contradictionsIn = (row: GrantRow): ReadonlyArray<string> => {
  const { data, revocation } = row
  const names: Array<string> = []
  const require = (name: keyof GrantRow, holds: boolean) => {
    if (!holds) names.push(name)
  }
  if (data === null) {
    // Of a grant in force, nothing is left where its run was deleted.
    require("data", row.revoked_at !== null && revocation === null && row.session_id === "")
    return names
  }
  require("grant_id", row.grant_id === data.id)
  require("session_id", row.session_id === (row.run_session ?? row.session_id) && row.session_id !== "")
  require("agent", data.agent === undefined || row.agent === data.agent)
  require("tool", row.tool === data.tool)
  require("scope", row.scope === data.scope)
  require("given_at", isSameTime(row.given_at, data.at))
  require("expires_at", isSameTime(row.expires_at, data.expiresAt))
  require("revoked_at", isSameTime(row.revoked_at, revocation?.at))
  return names
}

const grantKind: RowKind<GrantRow> = {
  fields: grantFields,
  row: GrantRow,
  quick: () => undefined,
  what: ({ grant_id, run_id }) => `the grant ${shown(grant_id)} of the run ${shown(run_id)}`,
  contradictions: contradictionsIn
}

/** A row of a grant. */
export interface GrantEntry extends Pick<GrantRow, "given_at" | "revocation" | "revoked_at"> {
  readonly grantId: GrantId
  /** Nothing where the run was deleted. */
  readonly stored?: StoredGrant
}

const entryOf = (row: GrantRow): GrantEntry => {
  const {
    data,
    given_at,
    grant_id: grantId,
    revocation,
    revoked_at,
    run_id: runId,
    session_id: sessionId
  } = row
  const grant = data === null || revocation === null ? data : revoke(data, revocation)
  return {
    grantId,
    given_at,
    revocation,
    revoked_at,
    ...(grant === null || sessionId === "" ? {} : { stored: { grant, runId, sessionId } })
  }
}

/** Grants, apart from the rows that hold none. */
export const sortGrants = (rows: ReadonlyArray<unknown>): Sorted<GrantEntry> => {
  const { damaged, sound } = sort(grantKind, rows)
  return { damaged, sound: sound.map(entryOf) }
}

/** The grants that rows hold. */
export const grantEntries = (
  operation: string,
  rows: ReadonlyArray<unknown>
): Effect.Effect<ReadonlyArray<GrantEntry>, RunStoreError> =>
  Effect.map(readAll(grantKind, operation, rows), (rows) => rows.map(entryOf))
