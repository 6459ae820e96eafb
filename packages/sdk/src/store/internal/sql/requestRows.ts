/**
 * The rows of the inbox: a request, what became of it, and copies of what both say, by which they are found.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { check } from "../../../domain/decide.ts"
import { Decision } from "../../../domain/Decision.ts"
import { RequestId, RunId, SessionId } from "../../../domain/Id.ts"
import { verbatim } from "../../../domain/internal/verbatim.ts"
import { Interruption, toolOf, warnAt } from "../../../domain/Interruption.ts"
import type { PendingRequest } from "../../RunStorePort.ts"
import { type RequestEntry, RequestStatus } from "../requests.ts"
import type { SqlAccess } from "./access.ts"
import { type RowKind, displayId } from "./damage.ts"
import { isIn, isSameTime, SafeInteger } from "./rows.ts"

const RequestRow = Schema.Struct({
  request_id: RequestId,
  run_id: RunId,
  /** Those of the run, by its own entry. */
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

/** Whether a row is what decoding would make of it, once its texts were parsed. */
const isDecodedRequest = verbatim(Schema.toType(RequestRow))

/** The columns of a request. Its session and its agent are those of the run: the copies that it has of both are for old readers. */
export const requestColumns = ({ sql }: SqlAccess) =>
  sql.literal(`request_id, run_id,
    (SELECT session_id FROM fermata_runs AS run WHERE run.run_id = fermata_requests.run_id) AS session_id,
    (SELECT agent FROM fermata_runs AS run WHERE run.run_id = fermata_requests.run_id) AS agent,
    kind, agent_path, tool, asked_at, expires_at, warn_at, on_expiry, request, status, decision, superseded_reason, superseded_by`)

/** Agent names as one text in which each can be found and no part of a name passes for another. */
export const pathText = (names: ReadonlyArray<string>): string =>
  names.map((name) => `,${JSON.stringify(name)}`).join("")

/** Whether a request of this status has a decision; a superseded one may have. */
const isDecided: { readonly [S in RequestStatus]: boolean | undefined } = {
  open: false,
  decided: true,
  journaled: true,
  superseded: undefined
}

/** A request of the inbox and what became of it. */
export interface InboxEntry {
  readonly pending: PendingRequest
  readonly entry: RequestEntry
}

/** Requests, with columns that say what the request and the decision say: acting on others would be acting on what nobody wrote. */
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
      // A text that says that there is none is not one of ours.
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
      run_id: isIn(request.runId, row.run_id),
      kind: row.kind === request._tag,
      agent_path: row.agent_path === pathText(request.agentPath),
      tool: row.tool === (toolOf(request) ?? null),
      asked_at: isSameTime(row.asked_at, request.at),
      expires_at: isSameTime(row.expires_at, request.expiresAt),
      on_expiry: row.on_expiry === (request.onExpiry ?? "deny"),
      // It is taken out when the warning was given, and was not known once.
      warn_at: row.warn_at === null || isSameTime(row.warn_at, warnAt(request)),
      decision:
        hasDecision === (decision !== null) &&
        (decision === null || decision.requestId === row.request_id) &&
        // What the journal has already was judged when it was recorded, perhaps by other rules.
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
