/**
 * The rows of requests: the request and its decision as JSON, and copies of their fields as columns for queries.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { check } from "../../../domain/decide.ts"
import { Decision } from "../../../domain/Decision.ts"
import { isRunWithin, RequestId, RunId, SessionId } from "../../../domain/Id.ts"
import { verbatim } from "../../../domain/internal/verbatim.ts"
import { Interruption, toolOf, warnAt } from "../../../domain/Interruption.ts"
import type { PendingRequest } from "../../RunStorePort.ts"
import { type RequestEntry, RequestStatus } from "../requests.ts"
import type { SqlAccess } from "./access.ts"
import { type RowKind, displayId } from "./damage.ts"
import { isSameTime, SafeInteger } from "./rows.ts"

const RequestRow = Schema.Struct({
  request_id: RequestId,
  run_id: RunId,
  /** The session and the agent in the head of the run. */
  session_id: SessionId,
  agent: Schema.String,
  kind: Schema.String,
  agent_path: Schema.String,
  tool: Schema.NullOr(Schema.String),
  on_expiry: Schema.String,
  status: RequestStatus,
  superseded_reason: Schema.NullOr(Schema.String),
  superseded_by: Schema.NullOr(RequestId),
  asked_at: SafeInteger,
  expires_at: Schema.NullOr(SafeInteger),
  warn_at: Schema.NullOr(SafeInteger),
  request: Schema.fromJsonString(Interruption),
  decision: Schema.NullOr(Schema.fromJsonString(Decision))
})
type RequestRow = typeof RequestRow.Type

/** Whether a row needs no decoding, after its JSON texts were parsed. */
const isDecodedRequest = verbatim(Schema.toType(RequestRow))

/** The columns of a request. Session and agent come from the run's head; the row's own copies serve earlier versions of Fermata. */
export const requestColumns = ({ sql }: SqlAccess) =>
  sql.literal(`request_id, run_id,
    (SELECT session_id FROM fermata_runs AS run WHERE run.run_id = fermata_requests.run_id) AS session_id,
    (SELECT agent FROM fermata_runs AS run WHERE run.run_id = fermata_requests.run_id) AS agent,
    kind, agent_path, tool, asked_at, expires_at, warn_at, on_expiry, request, status, decision, superseded_reason, superseded_by`)

/** The text that the open requests of one kind, tool and agent have in common, in the index of these groups. */
export const groupOf = "kind || ' ' || coalesce(tool, '') || ' ' || agent_path"

/** Joins agent names so that a search for one name matches only that whole name. */
export const pathText = (names: ReadonlyArray<string>): string =>
  names.map((name) => `,${JSON.stringify(name)}`).join("")

/** Whether a request with this status has a decision; `undefined`: either. */
const isDecided: { readonly [S in RequestStatus]: boolean | undefined } = {
  open: false,
  decided: true,
  journaled: true,
  superseded: undefined
}

/** A decoded row. */
export interface InboxEntry {
  readonly pending: PendingRequest
  readonly entry: RequestEntry
}

/** Rows of requests. The columns must agree with the request and the decision, so that the store never acts on a changed row. */
export const requestKind: RowKind<RequestRow, InboxEntry> = {
  row: RequestRow,
  quick: (row) => {
    const { decision, request } = row as { readonly decision: unknown; readonly request: unknown }
    try {
      const parsed: unknown = {
        ...(row as object),
        request: JSON.parse(String(request)),
        decision: typeof decision === "string" ? JSON.parse(decision) : decision
      }
      // The JSON text `null` is damage: a missing decision is a NULL column.
      return isDecodedRequest(parsed) && (decision === null || parsed.decision !== null) ? parsed : undefined
    } catch {
      return undefined
    }
  },
  what: ({ request_id, run_id }) => `the request ${displayId(request_id)} of the run ${displayId(run_id)}`,
  agreements: (row) => {
    const { decision, request } = row
    const hasDecision = isDecided[row.status] ?? decision !== null
    return {
      request_id: row.request_id === request.requestId,
      run_id: isRunWithin(request.runId, row.run_id),
      kind: row.kind === request._tag,
      agent_path: row.agent_path === pathText(request.agentPath),
      tool: row.tool === (toolOf(request) ?? null),
      asked_at: isSameTime(row.asked_at, request.at),
      expires_at: isSameTime(row.expires_at, request.expiresAt),
      on_expiry: row.on_expiry === (request.onExpiry ?? "deny"),
      // NULL once the journal has the warning, and in rows of earlier versions.
      warn_at: row.warn_at === null || isSameTime(row.warn_at, warnAt(request)),
      decision:
        hasDecision === (decision !== null) &&
        (decision === null || decision.requestId === row.request_id) &&
        // A journaled decision was checked when it was recorded, possibly by the rules of an earlier version.
        (decision === null || row.status !== "decided" || Result.isSuccess(check(request, decision)))
    }
  },
  make: ({ agent, decision, request, run_id, session_id, status, superseded_by, superseded_reason }) => ({
    pending: { request, runId: run_id, sessionId: session_id, agent },
    entry: {
      request,
      status,
      ...(decision === null ? {} : { decision }),
      ...(superseded_reason === null
        ? {}
        : {
            superseded: {
              reason: superseded_reason,
              ...(superseded_by === null ? {} : { by: superseded_by })
            }
          })
    }
  })
}
