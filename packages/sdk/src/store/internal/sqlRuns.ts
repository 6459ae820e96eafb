/**
 * The heads of runs in SQL: leases, lists, and deletion.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { RunId } from "../../domain/Id.ts"
import type { Lease, ListFilter, RunStore } from "../RunStore.ts"
import { LeaseLost, RunBusy, RunContinued, RunNotFound } from "../RunStoreError.ts"
import { leaseMs, pageSize } from "./bounds.ts"
import type { SqlAccess } from "./sqlAccess.ts"
import { heads } from "./sqlRows.ts"

type Service = RunStore["Service"]

/** The columns of a head. A lease that ran out is nobody's. */
export const headColumns = ({
  now,
  sql
}: SqlAccess) => sql`run_id, session_id, parent_run_id, parent_revision, agent,
  status, revision, CASE WHEN lease_until > ${now} THEN owner END AS owner, lease_until, created_at, updated_at`

/** Makes the part of the store that deals with leases. */
export const makeLeases = (
  access: SqlAccess
): Pick<Service, "claim" | "renew" | "release" | "requestCancel"> => {
  const { now, query, sql, write } = access
  type Claimed = { readonly epoch: number; readonly lease_until: number }
  type Renewed = { readonly cancel_reason: string | null; readonly lease_until: number }

  return {
    claim: ({ owner, runId, ttl }) =>
      write(
        "claim",
        Effect.gen(function* () {
          const [claimed] = yield* sql<Claimed>`UPDATE fermata_runs
            SET owner = ${owner}, epoch = epoch + 1, lease_until = ${now} + ${leaseMs(ttl)}
            WHERE run_id = ${runId} AND (lease_until IS NULL OR lease_until <= ${now})
            RETURNING epoch, lease_until`
          if (claimed !== undefined) {
            return { runId, owner, epoch: Number(claimed.epoch), until: Number(claimed.lease_until) }
          }
          return yield* Effect.fail(yield* whyNot(access, "claim", runId))
        })
      ),

    renew: (lease, ttl) =>
      query(
        "renew",
        Effect.flatMap(
          sql<Renewed>`UPDATE fermata_runs SET lease_until = ${now} + ${leaseMs(ttl)} WHERE ${inForce(access, lease)}
            RETURNING lease_until, cancel_reason`,
          ([renewed]) =>
            renewed === undefined
              ? Effect.fail(new LeaseLost({ runId: lease.runId, owner: lease.owner }))
              : Effect.succeed({
                  lease: { ...lease, until: Number(renewed.lease_until) },
                  ...(renewed.cancel_reason === null ? {} : { cancelReason: renewed.cancel_reason })
                })
        )
      ),

    release: (lease) =>
      query(
        "release",
        Effect.asVoid(sql`UPDATE fermata_runs SET owner = NULL, lease_until = NULL WHERE run_id = ${lease.runId}
          AND epoch = ${lease.epoch} AND owner = ${lease.owner}`)
      ),

    requestCancel: (runId, reason) =>
      query(
        "requestCancel",
        Effect.flatMap(
          sql`UPDATE fermata_runs SET cancel_reason = coalesce(cancel_reason, ${reason}) WHERE run_id = ${runId}
            RETURNING run_id`,
          (rows) => (rows.length === 0 ? Effect.fail(new RunNotFound({ runId })) : Effect.void)
        )
      )
  }
}

/** The condition that fences a write: this lease, and not a moment longer than it lasts. */
export const inForce = ({ now, sql }: SqlAccess, lease: Lease) => sql`run_id = ${lease.runId}
  AND epoch = ${lease.epoch} AND owner = ${lease.owner} AND lease_until > ${now}`

/** Makes the part of the store that lists runs and deletes them. */
export const makeCatalogue = (access: SqlAccess): Pick<Service, "head" | "list" | "remove" | "prune"> => {
  const { now, query, sql, write } = access
  const columns = headColumns(access)

  const erase = Effect.fnUntraced(function* (runId: RunId) {
    yield* sql`DELETE FROM fermata_requests WHERE run_id = ${runId}`
    yield* sql`DELETE FROM fermata_journal WHERE run_id = ${runId}`
    yield* sql`DELETE FROM fermata_runs WHERE run_id = ${runId}`
  })

  const childOf = (runId: RunId) =>
    sql<{ readonly run_id: RunId }>`SELECT run_id FROM fermata_runs WHERE parent_run_id = ${runId} LIMIT 1`

  const listed = Effect.fnUntraced(function* (filter: ListFilter) {
    const conditions = [sql`1 = 1`]
    if (filter.sessionId !== undefined) conditions.push(sql`session_id = ${filter.sessionId}`)
    if (filter.agent !== undefined) conditions.push(sql`agent = ${filter.agent}`)
    if (filter.status !== undefined) conditions.push(sql`status = ${filter.status}`)
    if (filter.after !== undefined) {
      const [last] = yield* sql<{ readonly created_at: number }>`SELECT created_at FROM fermata_runs
        WHERE run_id = ${filter.after}`
      if (last !== undefined)
        conditions.push(sql`(created_at, run_id) < (${last.created_at}, ${filter.after})`)
    }
    return yield* sql`SELECT ${columns} FROM fermata_runs WHERE ${sql.and(conditions)}
      ORDER BY created_at DESC, run_id DESC LIMIT ${pageSize(filter.limit)}`
  })

  /** Runs that ended before a time and that nobody holds. `created_at` is there for the index. */
  const endedBefore = (
    time: number
  ) => sql`status IN ('completed', 'cancelled', 'error') AND created_at < ${time}
    AND updated_at < ${time} AND (lease_until IS NULL OR lease_until <= ${now})`

  return {
    head: Effect.fnUntraced(function* (runId) {
      const rows = yield* query("head", sql`SELECT ${columns} FROM fermata_runs WHERE run_id = ${runId}`)
      const [head] = yield* heads("head", rows)
      return head ?? (yield* new RunNotFound({ runId }))
    }),

    list: (filter = {}) => Effect.flatMap(query("list", listed(filter)), (rows) => heads("list", rows)),

    remove: (runId) =>
      write(
        "remove",
        Effect.gen(function* () {
          const [free] = yield* sql`SELECT run_id FROM fermata_runs
            WHERE run_id = ${runId} AND (lease_until IS NULL OR lease_until <= ${now}) ${access.forUpdate}`
          if (free === undefined) return yield* Effect.fail(yield* whyNot(access, "remove", runId))
          const [child] = yield* childOf(runId)
          if (child !== undefined) return yield* new RunContinued({ runId, by: child.run_id })
          yield* erase(runId)
        })
      ),

    prune: Effect.fnUntraced(function* (options) {
      const candidates = yield* query(
        "prune",
        sql<{
          readonly run_id: RunId
        }>`SELECT run_id FROM fermata_runs WHERE ${endedBefore(options.endedBefore)}
          ORDER BY created_at DESC, run_id DESC`
      )
      let count = 0
      // Newest first: a run goes before the one it builds on. In small transactions: others can write in between.
      for (let start = 0; start < candidates.length; start += pruneBatch) {
        count += yield* write(
          "prune",
          Effect.gen(function* () {
            let erased = 0
            for (const { run_id: runId } of candidates.slice(start, start + pruneBatch)) {
              const [still] = yield* sql`SELECT run_id FROM fermata_runs
                WHERE run_id = ${runId} AND ${endedBefore(options.endedBefore)} ${access.forUpdate}`
              if (still === undefined || (yield* childOf(runId)).length > 0) continue
              yield* erase(runId)
              erased += 1
            }
            return erased
          })
        )
      }
      return count
    })
  }
}

const pruneBatch = 50

/** Why a run could not be taken. */
const whyNot = Effect.fnUntraced(function* (access: SqlAccess, operation: string, runId: RunId) {
  const rows = yield* access.sql`SELECT ${headColumns(access)} FROM fermata_runs WHERE run_id = ${runId}`
  const [head] = yield* heads(operation, rows)
  if (head === undefined) return new RunNotFound({ runId })
  // Given back in this very moment: whoever had it may be asked for by trying again.
  const until = yield* Clock.currentTimeMillis
  return new RunBusy({
    runId,
    owner: head.lease?.owner ?? "another process",
    until: head.lease?.until ?? until
  })
})
