/**
 * Requests in SQL: changes by appended events, decisions, and queries of the inbox.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import type { Decision } from "../../../domain/Decision.ts"
import {
  type GrantId,
  type RequestId,
  requestOfGrant,
  lineOf,
  type RunId,
  type SessionId,
  type Timestamp
} from "../../../domain/Id.ts"
import { decodeRecord } from "../../../domain/internal/given.ts"
import { isRepeated, sameDecision } from "../../../domain/internal/judgeDecision.ts"
import { type Interruption, tokenOf, toolOf, warnAt } from "../../../domain/Interruption.ts"
import { RequestNotFound } from "../../../domain/Rejection.ts"
import type { RunStoreError } from "../../RunStoreError.ts"
import type { PendingFilter, RunStorePort } from "../../RunStorePort.ts"
import { blobsOfDecisions } from "../blobs.ts"
import { pageSize } from "../bounds.ts"
import { grantOf } from "../grants.ts"
import { kindsOf } from "../inbox.ts"
import {
  decisionOf,
  decodeInputs,
  endingRefusal,
  failedReason,
  isRecording,
  judgeAll,
  judgeEntry,
  named,
  oldestFirst,
  type InboxChange
} from "../requests.ts"
import { TransactionConflict, type SqlAccess, retryOnConflict } from "./access.ts"
import { type makeBlobRows, usesOf } from "./blobs.ts"
import { readAll } from "./damage.ts"
import type { makeGrants } from "./grants.ts"
import { equalTo, afterCursor, few, makePages, pageOf } from "./pages.ts"
import { groupOf, type InboxEntry, pathText, requestColumns, requestKind } from "./requestRows.ts"

/** The number of groups of open requests above which a list reads all requests, the oldest first. */
const mostGroups = 100

const byAge = { table: "fermata_requests", time: "asked_at", id: "request_id", order: ">" }

/** The run to which a batch of events belongs. */
export interface Owner {
  readonly runId: RunId
  readonly sessionId: SessionId
  readonly agent: string
}

/** Makes the operations on requests. */
export const makeRequests = (
  access: SqlAccess,
  grants: ReturnType<typeof makeGrants>,
  blobs: ReturnType<typeof makeBlobRows>
) => {
  const { byExpiry, contains, forUpdate, merged, noHint, notify, query, run, sql, write, writesAlone } =
    access
  const group = sql.literal(groupOf)
  const page = makePages(access)
  const columns = requestColumns(access)

  const open = (owner: Owner, request: Interruption) =>
    run(
      sql`INSERT INTO fermata_requests ${sql.insert({
        request_id: request.requestId,
        run_id: owner.runId,
        session_id: owner.sessionId,
        agent: owner.agent,
        kind: request._tag,
        agent_path: pathText(request.agentPath),
        tool: toolOf(request) ?? null,
        asked_at: request.at,
        expires_at: request.expiresAt ?? null,
        warn_at: warnAt(request) ?? null,
        on_expiry: request.onExpiry ?? "deny",
        request: JSON.stringify(request),
        status: "open",
        token: tokenOf(request) ?? null
      })}`
    )

  /** Closes a request. Returns false if it was decided and the change is not final. */
  const supersede = (runId: RunId, change: Extract<InboxChange, { readonly _tag: "superseded" }>) =>
    Effect.gen(function* () {
      const { by = null, isFinal, reason, requestId } = change
      if (!isFinal) {
        const decided = yield* run(sql`SELECT request_id FROM fermata_requests
          WHERE request_id = ${requestId} AND run_id = ${runId} AND status = 'decided'`)
        if (decided.length > 0) return false
      }
      yield* sql`UPDATE fermata_requests
        SET status = 'superseded', superseded_reason = ${reason}, superseded_by = ${by}
        WHERE request_id = ${requestId} AND run_id = ${runId} AND (status IN ('open', 'decided')
          OR (status = 'superseded' AND superseded_reason = ${failedReason} AND superseded_by IS NULL))`
      return true
    })

  const read = (requestId: RequestId) =>
    run(sql`SELECT ${columns} FROM fermata_requests WHERE request_id = ${requestId}`)

  /** Reads a request; `undefined` if there is none. */
  const entryOf = (operation: string, requestId: RequestId) =>
    Effect.flatMap(read(requestId), (rows) =>
      Effect.map(readAll(requestKind, operation, rows), ([row]) => row)
    )

  /** Reads a request; `undefined` if there is none or it cannot be read. Reading it directly reports the damage. */
  const readableEntry = (requestId: RequestId) =>
    Effect.catchTag(entryOf("decide", requestId), "RunStoreError", () => Effect.undefined)

  /** Writes a decision on an open request, with the grant that it creates. Returns false if the request is not open. */
  const decideOpen = (decision: Decision, status: "decided" | "journaled") =>
    Effect.flatMap(
      run(sql`UPDATE fermata_requests
        SET status = ${status}, decision = ${JSON.stringify(decision)}, decided_at = ${decision.at}, decided_by = ${decision.by}
        WHERE request_id = ${decision.requestId} AND status = 'open' RETURNING request_id`),
      (rows) =>
        rows.length > 0 && decision._tag === "approve" && decision.grant !== undefined
          ? Effect.as(keepGrant(decision), true)
          : Effect.succeed(rows.length > 0)
    )

  /** Inserts the grant that a decision creates. If the request cannot be read, the grant is inserted when it is first used. */
  const keepGrant = (decision: Decision): Effect.Effect<unknown, SqlError> =>
    Effect.flatMap(readableEntry(decision.requestId), (row) => {
      const grant = row === undefined ? undefined : grantOf(row.pending.request, decision)
      if (row === undefined || grant === undefined) return Effect.void
      return grants.insert({ grant, runId: row.pending.runId, sessionId: row.pending.sessionId })
    })

  /** Marks the decision of a request as journaled. Returns false if the store has a different decision. */
  const journaled = Effect.fnUntraced(function* (operation: string, decision: Decision) {
    // Usually the text is identical, because the caller of the append has read the decision from this row.
    const [taken] =
      yield* run(sql`UPDATE fermata_requests SET status = 'journaled' WHERE request_id = ${decision.requestId}
      AND status = 'decided' AND decision = ${JSON.stringify(decision)} RETURNING request_id`)
    // An earlier version of Fermata may have recorded the decision without a row for the grant.
    const insertGrant =
      decision._tag === "approve" && decision.grant !== undefined ? keepGrant(decision) : Effect.void
    if (taken !== undefined) return yield* Effect.as(insertGrant, true)
    if (yield* decideOpen(decision, "journaled")) return true
    const row = yield* entryOf(operation, decision.requestId)
    if (row?.entry.decision === undefined) return true
    if (!sameDecision(row.entry.decision, decision)) return false
    yield* sql`UPDATE fermata_requests SET status = 'journaled'
      WHERE request_id = ${decision.requestId} AND status = 'decided'`
    return yield* Effect.as(insertGrant, true)
  })

  const lockHead = (runId: RunId): Effect.Effect<unknown, SqlError> =>
    writesAlone ? Effect.void : sql`SELECT run_id FROM fermata_runs WHERE run_id = ${runId} ${forUpdate}`

  /** Refuses a decision on a run or sub-agent whose end was requested. The head must be locked, so that no such request comes in between. */
  const refuseIfEnding = Effect.fnUntraced(function* (runId: RunId, requestId: RequestId) {
    const rows = yield* sql<{ readonly ending: string }>`SELECT run_id AS ending FROM fermata_runs
        WHERE run_id = ${runId} AND cancel_reason IS NOT NULL
      UNION ALL SELECT recipient FROM fermata_messages
        WHERE run_id = ${runId} AND status = 'waiting' AND intent = 'end' AND recipient IS NOT NULL`
    const late = endingRefusal(
      requestId,
      rows.map(({ ending }) => ending)
    )
    if (late !== undefined) return yield* late
  })

  const find = Effect.fnUntraced(function* (operation: string, requestId: RequestId) {
    const row = yield* query(operation, entryOf(operation, requestId))
    return row === undefined ? yield* new RequestNotFound({ requestId }) : row
  })

  /** The rows of decisions that a run's journal does not contain, including expired requests. */
  const undelivered = (runId: RunId, now: Timestamp) =>
    run(sql`SELECT ${columns} FROM fermata_requests WHERE run_id = ${runId} AND (
      status = 'decided' OR (status = 'open' AND expires_at <= ${now} AND on_expiry = 'deny'))`)

  /** The groups of open requests that meet conditions. One search in their index finds the next group, another one its first request. */
  const groupsWith = (conditions: ReadonlyArray<Fragment>) =>
    Effect.map(
      run(sql<{ readonly name: string }>`WITH RECURSIVE named (name) AS (
          SELECT min(${group}) FROM fermata_requests WHERE status = 'open'
          UNION ALL SELECT (SELECT min(${group}) FROM fermata_requests WHERE status = 'open' AND ${group} > named.name)
            FROM named WHERE named.name IS NOT NULL
        ) SELECT named.name FROM named CROSS JOIN fermata_requests WHERE request_id = (
          SELECT request_id FROM fermata_requests WHERE status = 'open' AND ${group} = named.name
          ORDER BY asked_at, request_id LIMIT 1
        ) AND ${sql.and(conditions)} LIMIT ${sql.literal(String(mostGroups + 1))}`),
      (rows) => rows.map(({ name }) => name)
    )

  /** The requests of a run and of the sub-agents in it. The inbox lists all of them under the root. */
  const ofRun = (runId: RunId): ReadonlyArray<Fragment> => {
    const { root } = lineOf(runId)
    const inside = `${runId}.`
    const own = sql`run_id = ${root}`
    return root === runId ? [own] : [own, sql`substr(request_id, 1, ${inside.length}) = ${inside}`]
  }

  const waiting = Effect.fnUntraced(function* (
    filter: PendingFilter,
    now: Timestamp,
    size: number,
    skip: number
  ) {
    const { agent, askedBefore, expiresBefore, kind, runId, sessionId, tool } = filter
    const ofGroup = equalTo(access, { tool })
    if (kind !== undefined) ofGroup.push(sql.in("kind", kindsOf(kind)))
    if (agent !== undefined) ofGroup.push(contains("agent_path", pathText([agent])))
    const conditions = [
      sql`status = 'open'`,
      ...ofGroup,
      ...(runId === undefined ? [] : ofRun(runId)),
      ...(yield* afterCursor(access, filter.after, byAge)),
      expiresBefore === undefined
        ? sql`(expires_at IS NULL OR expires_at > ${now} OR on_expiry <> 'deny')`
        : sql`expires_at < ${expiresBefore}`
    ]
    if (sessionId !== undefined) {
      conditions.push(sql`run_id IN (SELECT run_id FROM fermata_runs WHERE session_id = ${sessionId})`)
    }
    if (askedBefore !== undefined) conditions.push(sql`asked_at < ${askedBefore}`)
    const selected = (table: Fragment, more: ReadonlyArray<Fragment> = []) =>
      sql`SELECT ${columns} FROM fermata_requests ${table} WHERE ${sql.and([...conditions, ...more])}`
    const inOrder = sql.literal("asked_at, request_id")
    const ordered = (found: Fragment) => run(sql`${found} ORDER BY ${inOrder} ${pageOf(access, size, skip)}`)
    if (runId !== undefined || sessionId !== undefined) return yield* ordered(selected(noHint))
    if (expiresBefore !== undefined) {
      const isFew = yield* few(
        access,
        sql`fermata_requests WHERE status = 'open' AND expires_at < ${expiresBefore}`
      )
      return yield* ordered(selected(isFew ? byExpiry : noHint))
    }
    const groups = ofGroup.length === 0 ? undefined : yield* groupsWith(ofGroup)
    if (groups === undefined || groups.length > mostGroups) return yield* ordered(selected(noHint))
    if (groups.length === 0) return []
    const branches = groups.map((name) => selected(noHint, [sql`${group} = ${name}`]))
    return yield* ordered(merged(branches, inOrder, size + skip))
  })

  const decide: RunStorePort["decide"] = Effect.fnUntraced(function* (input) {
    const now = yield* Clock.currentTimeMillis
    const decision = yield* Effect.fromResult(decodeRecord(input, now))
    return yield* retryOnConflict(
      Effect.gen(function* () {
        const { entry, pending } = yield* find("decide", decision.requestId)
        const { first, record, refusal } = judgeEntry(entry, decision, now)
        if (record !== undefined) {
          yield* write(
            "decide",
            Effect.gen(function* () {
              // The lock orders a decision and a park: the later one sees the earlier one.
              yield* lockHead(pending.runId)
              if (record === decision) yield* refuseIfEnding(pending.runId, decision.requestId)
              // Another decision came between the read and the write: judge again.
              if (!(yield* decideOpen(record, "decided"))) return yield* new TransactionConflict()
              yield* blobs.refer("decide", usesOf(pending.runId, blobsOfDecisions([record])))
              yield* notify
            }),
            Effect.map(entryOf("decide", decision.requestId), (row) =>
              row?.entry.decision !== undefined && sameDecision(row.entry.decision, record)
                ? Option.some(undefined)
                : Option.none()
            )
          )
        }
        return refusal === undefined
          ? { runId: pending.runId, decision: first ?? decision }
          : yield* Effect.fail(refusal)
      })
    )
  })

  /** Reads the requests of several decisions, by id. */
  const readEntries = Effect.fnUntraced(function* (decisions: ReadonlyArray<Decision>) {
    const found = new Map<RequestId, InboxEntry>()
    for (const { requestId } of decisions) {
      const row = yield* entryOf("decideAll", requestId)
      if (row !== undefined) found.set(requestId, row)
    }
    return found
  })

  const decideAll: RunStorePort["decideAll"] = Effect.fnUntraced(function* (inputs) {
    const now = yield* Clock.currentTimeMillis
    const decisions = yield* Effect.fromResult(decodeInputs(inputs, now))
    if (decisions.length === 0) return []
    const outcomeOf = (decision: Decision, { pending }: InboxEntry) => ({ runId: pending.runId, decision })
    const transaction = Effect.gen(function* () {
      if (!writesAlone) {
        const runIds = [...(yield* readEntries(decisions)).values()].map(({ pending }) => pending.runId)
        // One order for all batches prevents deadlocks.
        for (const runId of [...new Set(runIds)].sort()) yield* lockHead(runId)
      }
      const entries = yield* readEntries(decisions)
      const taken = yield* Effect.fromResult(judgeAll(decisions, (requestId) => entries.get(requestId), now))
      const fresh = taken.filter(({ isNew }) => isNew)
      for (const { decision, found } of fresh) yield* refuseIfEnding(found.pending.runId, decision.requestId)
      for (const { decision } of fresh) {
        if (!(yield* decideOpen(decision, "decided"))) return yield* new TransactionConflict()
      }
      const uses = fresh.flatMap(({ decision, found }) =>
        usesOf(found.pending.runId, blobsOfDecisions([decision]))
      )
      yield* blobs.refer("decideAll", uses)
      if (fresh.length > 0) yield* notify
      return taken.map(({ decision, found }) => outcomeOf(decision, found))
    })
    /** The outcome if an attempt whose response was lost recorded these decisions. */
    const committed = Effect.map(readEntries(decisions), (entries) => {
      const outcomes = decisions.flatMap((decision) => {
        const entry = entries.get(decision.requestId)
        const recorded = entry?.entry.decision
        if (entry === undefined || recorded === undefined) return []
        const isOurs = sameDecision(recorded, decision) || isRepeated(recorded, decision)
        return isOurs ? [outcomeOf(recorded, entry)] : []
      })
      return outcomes.length === decisions.length ? Option.some(outcomes) : Option.none()
    })
    return yield* retryOnConflict(write("decideAll", transaction, committed))
  })

  return {
    decide,
    decideAll,

    /** Applies changes of the inbox, inside the transaction that appends the events. Returns false if the store has a different decision. */
    apply: Effect.fnUntraced(function* (
      operation: string,
      owner: Owner,
      changes: ReadonlyArray<InboxChange>
    ) {
      for (const change of changes) {
        if (change._tag === "opened") yield* open(owner, change.request)
        else if (change._tag === "superseded") {
          if (!(yield* supersede(owner.runId, change))) return false
        } else if (change._tag === "reopened") {
          yield* sql`UPDATE fermata_requests SET status = 'open', superseded_reason = NULL
            WHERE run_id = ${owner.runId} AND status = 'superseded' AND superseded_reason = ${failedReason}
              AND superseded_by IS NULL`
        } else if (change._tag === "warned") {
          yield* sql`UPDATE fermata_requests SET warn_at = NULL WHERE request_id = ${change.requestId}`
        } else if (!(yield* journaled(operation, change.decision))) return false
      }
      return true
    }),

    /** Whether the run has a recorded decision that the changes do not contain. */
    leavesUnread: (runId: RunId, changes: ReadonlyArray<InboxChange>): Effect.Effect<boolean, SqlError> =>
      Effect.map(
        run(sql<{ readonly request_id: RequestId }>`SELECT request_id FROM fermata_requests
          WHERE run_id = ${runId} AND status = 'decided'`),
        (rows) => rows.some((row) => !changes.some((change) => isRecording(change, row.request_id)))
      ),

    /** Records a decision of another store. The request's expiry is not applied. */
    record: (decision: Decision): Effect.Effect<boolean, SqlError> => decideOpen(decision, "decided"),

    /** Inserts the grant with this id if a decision created it and it has no row yet. */
    keepGiven: Effect.fnUntraced(function* (grantId: GrantId): Effect.fn.Return<void, SqlError> {
      const [kept] =
        yield* sql`SELECT grant_id FROM fermata_grants WHERE grant_id = ${grantId} AND data IS NOT NULL`
      const requestId = requestOfGrant(grantId)
      if (kept !== undefined || requestId === undefined) return
      const row = yield* readableEntry(requestId)
      const decision = row?.entry.decision
      if (decision?._tag === "approve" && decision.grant !== undefined) yield* keepGrant(decision)
    }),

    /** Closes the open requests of a run that ends. */
    close: (runId: RunId, reason: string): Effect.Effect<unknown, SqlError> =>
      run(sql`UPDATE fermata_requests SET status = 'superseded', superseded_reason = ${reason}
        WHERE run_id = ${runId} AND status = 'open'`),

    /** See `RunStorePort.decisions`. Runs inside `query` or `read`. */
    decisions: (
      operation: string,
      runId: RunId,
      now: Timestamp
    ): Effect.Effect<ReadonlyArray<Decision>, SqlError | RunStoreError> =>
      undelivered(runId, now).pipe(
        Effect.flatMap((rows) => readAll(requestKind, operation, rows)),
        Effect.map((rows) => oldestFirst(rows.flatMap(({ entry }) => decisionOf(entry, now) ?? [])))
      ),

    request: Effect.fnUntraced(function* (requestId: RequestId) {
      const now = yield* Clock.currentTimeMillis
      const { entry, pending }: InboxEntry = yield* find("request", requestId)
      const decision = decisionOf(entry, now)
      return { ...pending, ...(decision === undefined ? {} : { decision }) }
    }),

    withToken: Effect.fnUntraced(function* (token: string) {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* query(
        "withToken",
        Effect.flatMap(
          run(sql`SELECT ${columns} FROM fermata_requests WHERE token = ${token}
            ORDER BY CASE status WHEN 'open' THEN 0 ELSE 1 END, asked_at DESC, request_id DESC LIMIT ${pageSize(undefined)}`),
          (rows) => readAll(requestKind, "withToken", rows)
        )
      )
      return named(rows, token, now)
    }),

    pending: Effect.fnUntraced(function* (filter: PendingFilter = {}) {
      const now = yield* Clock.currentTimeMillis
      const entries = yield* page({
        operation: "pending",
        limit: pageSize(filter.limit),
        rows: (size, skip) => waiting(filter, now, size, skip),
        kind: requestKind
      })
      return entries.map(({ pending }) => pending)
    })
  }
}
