/**
 * Grants in SQL: one row each, looked at in the transaction that starts the calls which it lets through.
 *
 * A revocation and such a start take turns: the start locks the rows that it relies on until it is committed, so a revocation that
 * was acknowledged came before it, and is seen, or after it.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SqlError } from "effect/sql/SqlError"
import { GrantNotFound, revoke, type Revoked } from "../../domain/Grant.ts"
import type { GrantId, RunId, Timestamp } from "../../domain/Id.ts"
import type { RunStore } from "../RunStore.ts"
import type { GrantFilter, StoredGrant } from "../StoredGrant.ts"
import { pageSize } from "./bounds.ts"
import type { SqlAccess } from "./sqlAccess.ts"
import { grantEntries, sortGrants } from "./sqlGrantRows.ts"
import { makePages } from "./sqlPages.ts"

/** The columns of a grant, and the session of its run. */
export const grantColumns = ({ sql }: SqlAccess) =>
  sql.literal(`grant_id, run_id, session_id,
    (SELECT session_id FROM fermata_runs AS run WHERE run.run_id = fermata_grants.run_id) AS run_session,
    agent, tool, scope, given_at, expires_at, data, revoked_at, revocation`)

/** Makes the part of the store that deals with grants. */
export const makeGrants = (access: SqlAccess) => {
  const { forUpdate, query, sql, write } = access
  const columns = grantColumns(access)
  const page = makePages(access)
  const forShare = sql.onDialectOrElse({ pg: () => sql`FOR SHARE`, orElse: () => sql.literal("") })

  const insert = ({ grant, runId, sessionId }: StoredGrant): Effect.Effect<unknown, SqlError> => {
    const { revoked, ...data } = grant
    return sql`INSERT INTO fermata_grants (
        grant_id, run_id, session_id, agent, tool, scope, given_at, expires_at, data, revoked_at, revocation
      ) VALUES (
        ${grant.id}, ${runId}, ${sessionId}, ${grant.agent ?? ""}, ${grant.tool}, ${grant.scope}, ${grant.at},
        ${grant.expiresAt ?? null}, ${JSON.stringify(data)}, ${revoked?.at ?? null},
        ${revoked === undefined ? null : JSON.stringify(revoked)}
      ) ON CONFLICT (grant_id) DO NOTHING`
  }

  const read = (grantId: string) =>
    sql`SELECT ${columns} FROM fermata_grants WHERE grant_id = ${grantId} ${forUpdate}`

  const listed = Effect.fnUntraced(function* (filter: GrantFilter, size: number, skip: number) {
    const conditions = [sql`(data IS NOT NULL OR session_id <> '')`]
    if (filter.runId !== undefined) conditions.push(sql`run_id = ${filter.runId}`)
    if (filter.sessionId !== undefined) conditions.push(sql`session_id = ${filter.sessionId}`)
    if (filter.grantId !== undefined) conditions.push(sql`grant_id = ${filter.grantId}`)
    if (filter.tool !== undefined) conditions.push(sql`tool = ${filter.tool}`)
    if (filter.agent !== undefined) conditions.push(sql`agent = ${filter.agent}`)
    if (filter.after !== undefined) {
      const [last] = yield* sql<{ readonly given_at: number }>`SELECT given_at FROM fermata_grants
        WHERE grant_id = ${filter.after}`
      if (last !== undefined) conditions.push(sql`(given_at, grant_id) > (${last.given_at}, ${filter.after})`)
    }
    return yield* sql`SELECT ${columns} FROM fermata_grants WHERE ${sql.and(conditions)}
      ORDER BY given_at, grant_id LIMIT ${size}${skip === 0 ? sql`` : sql` OFFSET ${skip}`}`
  })

  /** Grants that are asked for by their run, or one by one, have to be readable; other lists go on without those that are not. */
  const grants: RunStore["Service"]["grants"] = (filter = {}) => {
    const limit = pageSize(filter.limit)
    const entries =
      filter.runId !== undefined || filter.grantId !== undefined
        ? Effect.flatMap(query("grants", listed(filter, limit, 0)), (rows) => grantEntries("grants", rows))
        : page({
            operation: "grants",
            limit,
            rows: (size, skip) => listed(filter, size, skip),
            sort: sortGrants
          })
    return Effect.map(entries, (found) => found.flatMap(({ stored }) => stored ?? []))
  }

  const revokeGrant: RunStore["Service"]["revokeGrant"] = ({ given, grantId, revocation }) => {
    const find = (operation: string) => Effect.flatMap(read(grantId), (rows) => grantEntries(operation, rows))
    return write(
      "revokeGrant",
      Effect.gen(function* () {
        if (given !== undefined) yield* insert(given)
        const [entry] = yield* find("revokeGrant")
        const found = entry?.stored
        if (found === undefined) return yield* new GrantNotFound({ grantId })
        // The first revocation stands.
        if (found.grant.revoked !== undefined) return found
        yield* sql`UPDATE fermata_grants SET revoked_at = ${revocation.at}, revocation = ${JSON.stringify(revocation)}
          WHERE grant_id = ${grantId}`
        return { ...found, grant: revoke(found.grant, revocation) }
      }),
      Effect.map(find("revokeGrant"), ([entry]) =>
        entry?.stored?.grant.revoked === undefined ? Option.none() : Option.some(entry.stored)
      )
    )
  }

  return {
    grants,
    revokeGrant,

    /** Keeps a grant that is not kept yet; inside a transaction. */
    insert,

    /**
     * Those of the grants that were revoked. The others cannot be revoked before the transaction ends. One that cannot be read may have
     * been revoked: nothing starts under it, and what would have is asked about.
     */
    revokedOf: Effect.fnUntraced(function* (used: ReadonlyArray<StoredGrant>, at: Timestamp) {
      const ids = used.map(({ grant }) => grant.id)
      const look = sql<{ readonly grant_id: GrantId }>`SELECT ${columns} FROM fermata_grants
        WHERE ${sql.in("grant_id", ids)} ORDER BY grant_id ${forShare}`
      let rows = yield* look
      if (rows.length < new Set(ids).size) {
        // A process of an earlier version has recorded the decision.
        for (const one of used) yield* insert(one)
        rows = yield* look
      }
      return rows.flatMap((row): ReadonlyArray<Revoked> => {
        const [entry] = sortGrants([row]).sound
        if (entry === undefined) return [{ grantId: row.grant_id, revocation: { by: unreadableRow, at } }]
        const { grantId, revocation, revoked_at: revokedAt } = entry
        if (revokedAt === null) return []
        // Who revoked a grant is not kept longer than the run that gave it.
        return [{ grantId, revocation: revocation ?? { by: "a run that was deleted", at: revokedAt } }]
      })
    }),

    /** Deletes the grants that a run gave. Of revoked ones an id is left, so that a copy of the run cannot bring them back. */
    erase: Effect.fnUntraced(function* (runId: RunId) {
      yield* sql`DELETE FROM fermata_grants WHERE run_id = ${runId} AND revoked_at IS NULL AND revocation IS NULL`
      // A damaged time is replaced: what is left has to be readable.
      yield* sql`UPDATE fermata_grants SET data = NULL, revocation = NULL, agent = '', tool = '', session_id = '',
          revoked_at = CASE WHEN revoked_at BETWEEN 0 AND ${latest} THEN revoked_at ELSE 0 END
        WHERE run_id = ${runId}`
    })
  }
}

/** By whom a grant counts as revoked that cannot be read. */
const unreadableRow = "the store, which cannot read its row"

/** The last moment that has a date. */
const latest = 8.64e15
