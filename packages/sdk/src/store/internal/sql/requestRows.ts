/**
 * The rows of the inbox: a request, what became of it, and copies of what both say, by which they are found.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { check } from "../../../domain/decide.ts"
import { Decision } from "../../../domain/Decision.ts"
import { RequestId, RunId, SessionId } from "../../../domain/Id.ts"
import { verbatim } from "../../../domain/internal/verbatim.ts"
import { Interruption, toolOf, warnAt } from "../../../domain/Interruption.ts"
import type { RunStoreError } from "../../RunStoreError.ts"
import type { PendingRequest } from "../../RunStorePort.ts"
import { type RequestEntry, RequestStatus } from "../requests.ts"
import { readAll, type RowKind, shown, sort, type Sorted } from "./damage.ts"
import { isIn, isSameTime, Whole } from "./rows.ts"

const requestFields = {
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
  superseded_by: Schema.NullOr(RequestId)
}
const wholeTimes = { asked_at: Whole, expires_at: Schema.NullOr(Whole), warn_at: Schema.NullOr(Whole) }
const numericTimes = {
  asked_at: Schema.Finite,
  expires_at: Schema.NullOr(Schema.Finite),
  warn_at: Schema.NullOr(Schema.Finite)
}
const requestRowFields = {
  ...requestFields,
  ...wholeTimes,
  request: Schema.fromJsonString(Interruption),
  decision: Schema.NullOr(Schema.fromJsonString(Decision))
}
const RequestRow = Schema.Struct(requestRowFields)
type RequestRow = typeof RequestRow.Type

/** The same after its texts were parsed, from drivers that return numbers. */
const isParsedRequestRow = verbatim(
  Schema.Struct({
    ...requestFields,
    ...numericTimes,
    request: Interruption,
    decision: Schema.NullOr(Decision)
  })
)

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

/** The columns that do not say what the request and the decision say: acting on either would be acting on what nobody wrote. */
const contradictionsIn = (row: RequestRow): ReadonlyArray<string> => {
  const { decision, request } = row
  const names: Array<string> = []
  const require = (name: keyof RequestRow, holds: boolean) => {
    if (!holds) names.push(name)
  }
  require("request_id", row.request_id === request.requestId)
  require("run_id", isIn(request.runId, row.run_id))
  require("kind", row.kind === request._tag)
  require("agent_path", row.agent_path === pathText(request.agentPath))
  require("tool", row.tool === (toolOf(request) ?? null))
  require("asked_at", isSameTime(row.asked_at, request.at))
  require("expires_at", isSameTime(row.expires_at, request.expiresAt))
  require("on_expiry", row.on_expiry === (request.onExpiry ?? "deny"))
  // It is taken out when the warning was given, and was not known once.
  require("warn_at", row.warn_at === null || isSameTime(row.warn_at, warnAt(request)))
  const expected = isDecided[row.status]
  require("decision", expected === undefined || expected === (decision !== null))
  require("decision", decision === null || decision.requestId === row.request_id)
  // What the journal has already was judged when it was recorded, perhaps by other rules.
  require("decision", decision === null ||
    row.status !== "decided" ||
    Result.isSuccess(check(request, decision)))
  return names
}

const requestKind: RowKind<RequestRow> = {
  fields: requestRowFields,
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
      return isParsedRequestRow(parsed) && (decision === null || parsed.decision !== null)
        ? parsed
        : undefined
    } catch {
      return undefined
    }
  },
  what: ({ request_id, run_id }) => `the request ${shown(request_id)} of the run ${shown(run_id)}`,
  contradictions: contradictionsIn
}

/** A request of the inbox and what became of it. */
export interface InboxEntry {
  readonly pending: PendingRequest
  readonly entry: RequestEntry
}

/** Requests, apart from the rows that hold none. */
export const sortRequests = (rows: ReadonlyArray<unknown>): Sorted<InboxEntry> => {
  const { damaged, sound } = sort(requestKind, rows)
  return { damaged, sound: sound.map(requestOf) }
}

/** The requests that rows hold. */
export const requests = (
  operation: string,
  rows: ReadonlyArray<unknown>
): Effect.Effect<ReadonlyArray<InboxEntry>, RunStoreError> =>
  Effect.map(readAll(requestKind, operation, rows), (rows) => rows.map(requestOf))

const requestOf = (row: RequestRow): InboxEntry => ({
  pending: { request: row.request, runId: row.run_id, sessionId: row.session_id, agent: row.agent },
  entry: {
    request: row.request,
    status: row.status,
    ...(row.decision === null ? {} : { decision: row.decision }),
    ...(row.superseded_reason === null
      ? {}
      : {
          superseded: {
            reason: row.superseded_reason,
            ...(row.superseded_by === null ? {} : { by: row.superseded_by })
          }
        })
  }
})
