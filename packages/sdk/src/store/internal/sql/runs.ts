/**
 * Heads of runs in SQL: leases, lists and deletion.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Fragment } from "effect/sql/Statement"
import type { Sha256 } from "../../../domain/Blob.ts"
import type { RunId, SessionId } from "../../../domain/Id.ts"
import type { Status } from "../../../domain/RunState.ts"
import { LeaseLost, RunBusy, RunContinued, RunNotFound } from "../../RunStoreError.ts"
import type { ListFilter, RunStorePort, SessionFilter } from "../../RunStorePort.ts"
import { leaseMs, pageSize } from "../bounds.ts"
import { unreadable } from "../journal.ts"
import type { SqlAccess } from "./access.ts"
import type { makeBlobRows } from "./blobs.ts"
import { isUnmarked, nextMark } from "./chain.ts"
import type { makeCheckpoints } from "./checkpoints.ts"
import { readAll } from "./damage.ts"
import type { makeGrants } from "./grants.ts"
import { isInForce, isDamaged, isFree } from "./lease.ts"
import { makeNextDue } from "./nextDue.ts"
import { equalTo, afterCursor, few, makePages, pageOf } from "./pages.ts"
import { makeReady } from "./ready.ts"
import { agentAtWork, damagedEntry, headColumns, headKind, makeHeads, sessionKind } from "./rows.ts"
import { makeSessionPositions } from "./sessionPositions.ts"

type Service = RunStorePort

/** Makes the operations on leases. */
export const makeLeases = (
  access: SqlAccess
): Pick<Service, "claim" | "renew" | "notices" | "release" | "requestCancel"> => {
  const { notify, now, query, run, sql, write } = access
  type Claimed = { readonly epoch: number; readonly lease_until: number }
  type Renewed = Notices & { readonly lease_until: number }

  return {
    claim: ({ owner, runId, ttl }) =>
      Effect.suspend(() => {
        // Identifies this claim if its response is lost: the same owner may claim twice at the same time.
        const claim = globalThis.crypto.randomUUID()
        const lease = (claimed: Claimed) => ({
          runId,
          owner,
          epoch: Number(claimed.epoch),
          until: Number(claimed.lease_until)
        })
        return write(
          "claim",
          Effect.gen(function* () {
            const length = leaseMs(ttl)
            const [claimed] = yield* run(sql<Claimed>`UPDATE fermata_runs
              SET owner = ${owner}, epoch = epoch + 1, lease_until = ${now} + ${length}, lease_ms = ${length},
                lease_epoch = epoch + 1, claim = ${claim}
              WHERE run_id = ${runId} AND ${isFree(access)}
              RETURNING epoch, lease_until`)
            if (claimed === undefined) return yield* Effect.fail(yield* notFree(access, "claim", runId))
            const taken = lease(claimed)
            return isEpoch(taken.epoch) ? taken : yield* unreadable("claim", damagedEntry(runId, ["epoch"]))
          }),
          Effect.map(
            sql<Claimed>`SELECT epoch, lease_until FROM fermata_runs WHERE run_id = ${runId} AND claim = ${claim}`,
            ([claimed]) => Option.map(Option.fromUndefinedOr(claimed), lease)
          )
        )
      }),

    renew: (lease, ttl) =>
      query(
        "renew",
        Effect.flatMap(
          run(sql<Renewed>`UPDATE fermata_runs
            SET lease_until = ${now} + ${leaseMs(ttl)}, lease_ms = ${leaseMs(ttl)} WHERE ${isInForce(access, lease)}
            RETURNING lease_until, ${noticeColumns(access, lease.runId)}`),
          ([renewed]) =>
            renewed === undefined
              ? Effect.fail(new LeaseLost({ runId: lease.runId, owner: lease.owner }))
              : Effect.succeed({
                  lease: { ...lease, until: Number(renewed.lease_until) },
                  ...noticesOf(renewed)
                })
        )
      ),

    notices: (runIds) =>
      runIds.length === 0
        ? Effect.succeed([])
        : query(
            "notices",
            Effect.map(
              run(sql<Notices & { readonly run_id: RunId }>`SELECT * FROM (
                  SELECT run_id, CASE WHEN status IN ('running', 'held') THEN cancel_reason END AS cancel_reason,
                    ${mailColumn(access, sql`run.run_id`)} AS has_mail
                  FROM fermata_runs AS run WHERE ${sql.in("run_id", padded(runIds))}
                ) AS notice WHERE cancel_reason IS NOT NULL OR has_mail`),
              (rows) => rows.map((row) => ({ runId: row.run_id, ...noticesOf(row) }))
            )
          ),

    release: (lease) =>
      query(
        "release",
        Effect.flatMap(
          run(sql`UPDATE fermata_runs SET owner = NULL, lease_until = NULL
            WHERE run_id = ${lease.runId} AND epoch = ${lease.epoch} AND owner = ${lease.owner} RETURNING run_id`),
          // A released run that is running is ready for another process, and the handles of another one may wait for its end.
          ([released]) => (released === undefined ? Effect.void : notify)
        )
      ),

    requestCancel: (runId, reason) =>
      write(
        "requestCancel",
        sql`UPDATE fermata_runs SET cancel_reason = coalesce(cancel_reason, ${reason}) WHERE run_id = ${runId}
          RETURNING run_id`.pipe(
          Effect.flatMap((rows) =>
            rows.length === 0 ? Effect.fail(new RunNotFound({ runId })) : Effect.void
          ),
          Effect.tap(notify)
        ),
        // A second attempt succeeds and keeps the first reason.
        Effect.succeedNone
      )
  }
}

/** Whether an epoch can fence: above the safe integers, it would no longer grow. */
const isEpoch = (epoch: number): boolean => Number.isSafeInteger(epoch) && epoch > 0

/** The columns that `append`, `renew` and `notices` return to the owner: a cancellation request, and whether there is mail. */
export interface Notices {
  readonly cancel_reason: string | null
  readonly has_mail: number | boolean
}

/** The columns of {@link Notices}. With a time, requests that have expired by then count as mail. */
export const noticeColumns = (access: SqlAccess, runId: RunId, at?: number) =>
  access.sql`cancel_reason, ${mailColumn(access, runId, at)} AS has_mail`

/** Whether there are decisions or messages that the journal does not contain. */
export const mailColumn = ({ sql }: SqlAccess, runId: RunId | Fragment, at = 0) => sql`(
  EXISTS (SELECT 1 FROM fermata_requests WHERE run_id = ${runId} AND (
    status = 'decided' OR (status = 'open' AND expires_at <= ${at} AND on_expiry = 'deny')))
  OR EXISTS (SELECT 1 FROM fermata_messages WHERE run_id = ${runId} AND status = 'waiting'))`

export const noticesOf = ({ cancel_reason, has_mail }: Notices) => ({
  ...(cancel_reason === null ? {} : { cancelReason: cancel_reason }),
  ...(has_mail ? { hasMail: true } : {})
})

/** Makes the operations that list and delete runs. */
export const makeCatalogue = (
  access: SqlAccess,
  checkpoints: ReturnType<typeof makeCheckpoints>,
  grants: ReturnType<typeof makeGrants>,
  blobs: ReturnType<typeof makeBlobRows>
): Pick<Service, "head" | "latest" | "list" | "sessions" | "ready" | "nextDue" | "remove" | "prune"> => {
  const { byAgent, byLast, byParent, byStatus, merged, noHint, notify, query, read, run, sql, write } = access
  const columns = headColumns(access)
  const heads = makeHeads(access)
  const page = makePages(access)
  const positions = makeSessionPositions(access)

  /** Deletes a run. Returns the contents to which it referred. */
  const erase = Effect.fnUntraced(function* (runId: RunId) {
    yield* eraseContents(access, checkpoints, runId)
    yield* grants.erase(runId)
    yield* positions.unfollow(runId)
    yield* sql`DELETE FROM fermata_runs WHERE run_id = ${runId}`
    return yield* blobs.forget(runId)
  })

  const childOf = (runId: RunId) =>
    sql<{ readonly run_id: RunId }>`SELECT run_id FROM fermata_runs WHERE parent_run_id = ${runId} LIMIT 1`

  /** Whether damaged rows make a run its own ancestor. No run of such a cycle can be read, so they may be removed in any order. */
  const isCircular = (runId: RunId) =>
    Effect.map(
      sql`WITH RECURSIVE chain (run_id, parent_run_id, depth, mark) AS (
          SELECT run_id, parent_run_id, 0, run_id FROM fermata_runs WHERE run_id = ${runId}
          UNION ALL
          SELECT run.run_id, run.parent_run_id, chain.depth + 1, ${sql.literal(nextMark("run"))}
          FROM chain JOIN fermata_runs AS run ON run.run_id = chain.parent_run_id AND ${sql.literal(isUnmarked("run"))}
        ) SELECT run_id FROM chain WHERE parent_run_id = ${runId}`,
      (rows) => rows.length > 0
    )

  const listed = Effect.fnUntraced(function* (filter: ListFilter, size: number, skip: number) {
    const { agent, runIds, sessionId: session_id, status } = filter
    const conditions = [
      ...(runIds === undefined ? [] : [sql.in("run_id", padded(runIds))]),
      ...equalTo(access, { session_id, agent, status }),
      ...(yield* afterCursor(access, filter.after, { ...runsBy, time: "created_at", order: "<" }))
    ]
    const selected = (table: Fragment, more: ReadonlyArray<Fragment> = []) =>
      sql`SELECT ${columns} FROM fermata_runs ${table} WHERE ${sql.and([...conditions, ...more])}`
    const inOrder = sql.literal("created_at DESC, run_id DESC")
    const ordered = (found: Fragment) => sql`${found} ORDER BY ${inOrder} ${pageOf(access, size, skip)}`
    if (runIds !== undefined || session_id !== undefined) return yield* ordered(selected(noHint))
    if (agent !== undefined && (status === undefined || (yield* hasFew(sql`agent = ${agent}`)))) {
      // An agent's runs are in two parts of their index: the last ones of sessions, and the others.
      const branches = ["IS NULL", "= 1"].map((is) => selected(byAgent, [sql`followed ${sql.literal(is)}`]))
      return yield* ordered(merged(branches, inOrder, size + skip))
    }
    return yield* ordered(status === undefined ? selected(noHint) : selected(byStatus, inStatus(status)))
  })

  const hasFew = (condition: Fragment) => few(access, sql`fermata_runs WHERE ${condition}`)

  /** The condition with which the index of statuses is ordered by time: see `agentAtWork`. */
  const inStatus = (status: Status): ReadonlyArray<Fragment> =>
    status === "running" ? [] : [sql`${sql.literal(agentAtWork)} IS NULL`]

  /** Selects the runs that ended before a time and that no process owns. The condition on `created_at` lets the query use an index. */
  const endedBefore = (
    time: number
  ) => sql`status IN ('completed', 'cancelled', 'error') AND ${sql.literal(agentAtWork)} IS NULL AND created_at < ${time}
    AND updated_at < ${time} AND ${isFree(access)}`

  const pruneOnce = Effect.fnUntraced(function* (before: number) {
    const candidates = yield* query(
      "prune",
      sql<{
        readonly run_id: RunId
      }>`SELECT run_id FROM fermata_runs WHERE ${endedBefore(before)}
        ORDER BY created_at DESC, run_id DESC`
    )
    let count = 0
    // Newest first, so that a run is deleted before the run that it builds on. Small transactions let others write in between.
    for (let start = 0; start < candidates.length; start += pruneBatch) {
      count += yield* write(
        "prune",
        Effect.gen(function* () {
          let erased = 0
          const contents: Array<Sha256> = []
          for (const { run_id: runId } of candidates.slice(start, start + pruneBatch)) {
            const [still] = yield* sql`SELECT run_id FROM fermata_runs
              WHERE run_id = ${runId} AND ${endedBefore(before)} ${access.forUpdate}`
            if (still === undefined || (yield* childOf(runId)).length > 0) continue
            contents.push(...(yield* erase(runId)))
            erased += 1
          }
          // After all runs, because writers lock a run before its contents.
          yield* blobs.release(contents, yield* Clock.currentTimeMillis)
          return erased
        }),
        Effect.succeedNone
      )
    }
    return count
  })

  /**
   * The sessions, by the index of last runs; those of an agent, or with a status that few runs have, by other indexes. The condition on the next run
   * is for runs that an earlier version has stored since.
   */
  const sessionsOf = Effect.fnUntraced(function* (filter: SessionFilter, size: number, skip: number) {
    const { agent, status } = filter
    const conditions = [
      sql`followed IS NULL`,
      ...equalTo(access, { agent, status }),
      ...(yield* afterCursor(access, filter.after, { ...runsBy, time: "created_at", order: "<" }))
    ]
    const selected = (table: Fragment, more: ReadonlyArray<Fragment> = []) => sql`SELECT ${columns}, (
        SELECT min(first.created_at) FROM fermata_runs AS first WHERE first.session_id = run.session_id
      ) AS began FROM fermata_runs AS run ${table} WHERE ${sql.and([...conditions, ...more])} AND NOT EXISTS (
        SELECT 1 FROM fermata_runs AS next WHERE next.session_id = run.session_id
          AND coalesce(next.follows, next.parent_run_id, '') = run.run_id
      ) ORDER BY created_at DESC, run_id DESC ${pageOf(access, size, skip)}`
    if (agent !== undefined && (status === undefined || (yield* hasFew(sql`agent = ${agent}`))))
      return yield* selected(byAgent)
    const isRare =
      status === "completed"
        ? yield* hasFew(sql.and([sql`status = ${status}`, ...inStatus(status)]))
        : status !== undefined
    return yield* isRare && status !== undefined ? selected(byStatus, inStatus(status)) : selected(byLast)
  })

  /** The last run of a session: no other run of the session follows it. */
  const lastOf = Effect.fnUntraced(function* (sessionId: SessionId) {
    const rows =
      yield* run(sql`SELECT ${columns} FROM fermata_runs AS run WHERE session_id = ${sessionId} AND NOT EXISTS (
        SELECT 1 FROM fermata_runs AS next ${byParent}
          WHERE next.parent_run_id = run.run_id AND next.session_id = run.session_id
      ) ORDER BY created_at DESC, run_id DESC LIMIT 1`)
    return (yield* readAll(headKind, "latest", rows))[0]
  })

  /**
   * Returns `undefined` for a session without runs, and fails if its runs form a cycle. One snapshot answers both, because the session may
   * begin in between.
   */
  const lastUnlessCircular = (sessionId: SessionId) =>
    read(
      "latest",
      Effect.gen(function* () {
        const last = yield* lastOf(sessionId)
        if (last !== undefined) return last
        const [some] = yield* sql<{ readonly run_id: RunId }>`SELECT run_id FROM fermata_runs
          WHERE session_id = ${sessionId} LIMIT 1`
        return some === undefined
          ? undefined
          : yield* unreadable("latest", damagedEntry(some.run_id, ["parent_run_id"]))
      })
    )

  return {
    head: Effect.fnUntraced(function* (runId) {
      const head = yield* query("head", heads("head", sql`run_id = ${runId}`))
      return head ?? (yield* new RunNotFound({ runId }))
    }),

    latest: Effect.fnUntraced(function* (sessionId) {
      return (yield* query("latest", lastOf(sessionId))) ?? (yield* lastUnlessCircular(sessionId))
    }),

    list: (filter = {}) =>
      filter.runIds?.length === 0
        ? Effect.succeed([])
        : page({
            operation: "list",
            limit: pageSize(filter.limit),
            rows: (size, skip) => listed(filter, size, skip),
            kind: headKind
          }),

    sessions: (filter = {}) =>
      page({
        operation: "sessions",
        limit: pageSize(filter.limit),
        rows: (size, skip) => sessionsOf(filter, size, skip),
        kind: sessionKind
      }),

    ready: makeReady(access),

    nextDue: makeNextDue(access),

    remove: (runId) =>
      write(
        "remove",
        Effect.gen(function* () {
          const [free] = yield* sql`SELECT run_id FROM fermata_runs
            WHERE run_id = ${runId} AND (${isFree(access)} OR ${isDamaged(access)}) ${access.forUpdate}`
          if (free === undefined) return yield* Effect.fail(yield* notFree(access, "remove", runId))
          const [child] = yield* childOf(runId)
          if (child !== undefined && !(yield* isCircular(runId))) {
            return yield* new RunContinued({ runId, by: child.run_id })
          }
          yield* blobs.release(yield* erase(runId), yield* Clock.currentTimeMillis)
          yield* notify
        }),
        Effect.map(sql`SELECT run_id FROM fermata_runs WHERE run_id = ${runId}`, (rows) =>
          rows.length === 0 ? Option.some(undefined) : Option.none()
        )
      ),

    prune: Effect.fnUntraced(function* (options) {
      let total = 0
      // Of two runs that began in the same millisecond, the one that the other builds on may come first: the next round deletes it.
      while (true) {
        const pruned = yield* pruneOnce(options.endedBefore)
        if (pruned === 0) return total
        total += pruned
      }
    })
  }
}

/** Deletes the messages, requests, journal and checkpoint of a run, inside a transaction. The head and the grants stay. */
export const eraseContents = Effect.fnUntraced(function* (
  { journalOf, sql }: SqlAccess,
  checkpoints: ReturnType<typeof makeCheckpoints>,
  runId: RunId
) {
  yield* sql`DELETE FROM fermata_messages WHERE run_id = ${runId}`
  yield* sql`DELETE FROM fermata_requests WHERE run_id = ${runId}`
  yield* sql`DELETE FROM fermata_journal WHERE ${journalOf(runId)}`
  yield* checkpoints.erase(runId)
})

/** The ids, with the last one repeated up to a power of two: each length of a list is a statement of its own, which is compiled. */
export const padded = <A>(ids: ReadonlyArray<A>): ReadonlyArray<A> => {
  const length = 2 ** Math.ceil(Math.log2(ids.length))
  return [...ids, ...Array.from({ length: length - ids.length }, () => ids.at(-1)!)]
}

const runsBy = { table: "fermata_runs", id: "run_id" }

const pruneBatch = 50

/** Determines why an operation that needs a free run matched none. */
const notFree = Effect.fnUntraced(function* (access: SqlAccess, operation: string, runId: RunId) {
  const head = yield* makeHeads(access)(operation, access.sql`run_id = ${runId}`)
  if (head === undefined) return new RunNotFound({ runId })
  // The lease was released between the two statements: the caller may retry at once.
  const { owner, until } = head.lease ?? { owner: "another process", until: yield* Clock.currentTimeMillis }
  return new RunBusy({ runId, owner, until })
})
