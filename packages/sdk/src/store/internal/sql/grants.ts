/**
 * Grants in SQL: one row each, looked at in the transaction that starts the calls which it lets through.
 *
 * A revocation and such a start take turns: the start locks the rows that it relies on until it is committed, so a revocation that
 * was acknowledged came before it, and is seen, or after it.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SqlError } from "effect/sql/SqlError"
import { GrantNotFound, revoke, type Revoked } from "../../../domain/Grant.ts"
import { type GrantId, type RunId, runOfGrant, type Timestamp } from "../../../domain/Id.ts"
import type { RunStorePort } from "../../RunStorePort.ts"
import type { GrantFilter, StoredGrant } from "../../StoredGrant.ts"
import { latestTime, pageSize } from "../bounds.ts"
import { deletedRun } from "../grants.ts"
import type { SqlAccess } from "./access.ts"
import { readAll, sort } from "./damage.ts"
import { grantColumns, grantKind } from "./grantRows.ts"
import { equalTo, afterCursor, makePages } from "./pages.ts"

/** Makes the part of the store that deals with grants. */
export const makeGrants = (access: SqlAccess) => {
  const { contains, forUpdate, journalOf, query, sql, write } = access
  const columns = grantColumns(access)
  const page = makePages(access)
  const forShare = sql.onDialectOrElse({ pg: () => sql`FOR SHARE`, orElse: () => sql.literal("") })

  /** What is left of a grant that was revoked before its run was deleted, under another id where a later run has this one. */
  const leftId = (grantId: string, at: Timestamp) => `${grantId}@${at}`

  /** Makes room for a grant that another run of the same id gave, and returns when this one was revoked, if it was. */
  const leftOf = Effect.fnUntraced(function* ({ at, id }: StoredGrant["grant"]) {
    const rows = yield* sql<{
      readonly grant_id: string
      readonly given_at: unknown
      readonly revoked_at: unknown
    }>`
      SELECT grant_id, given_at, revoked_at FROM fermata_grants
      WHERE ${sql.in("grant_id", [id, leftId(id, at)])} AND data IS NULL ${forUpdate}`
    let revokedAt: number | undefined
    for (const { given_at, grant_id, revoked_at } of rows) {
      const givenAt = Number(given_at)
      if (grant_id !== id || givenAt === at) {
        revokedAt = Number(revoked_at)
        yield* sql`DELETE FROM fermata_grants WHERE grant_id = ${grant_id}`
        // One that cannot be read stays where it is: what it says counts for every grant of its id.
      } else if (Number.isSafeInteger(givenAt)) {
        yield* sql`DELETE FROM fermata_grants WHERE grant_id = ${leftId(id, givenAt)}`
        yield* sql`UPDATE fermata_grants SET grant_id = ${leftId(id, givenAt)} WHERE grant_id = ${id}`
      }
    }
    return revokedAt
  })

  const insert = Effect.fnUntraced(function* ({
    grant,
    runId,
    sessionId
  }: StoredGrant): Effect.fn.Return<void, SqlError> {
    const revokedAt = yield* leftOf(grant)
    const { revoked = revokedAt === undefined ? undefined : { by: deletedRun, at: revokedAt }, ...data } =
      grant
    yield* sql`INSERT INTO fermata_grants (
        grant_id, run_id, session_id, agent, tool, scope, given_at, expires_at, data, revoked_at, revocation
      ) VALUES (
        ${grant.id}, ${runId}, ${sessionId}, ${grant.agent ?? ""}, ${grant.tool}, ${grant.scope}, ${grant.at},
        ${grant.expiresAt ?? null}, ${JSON.stringify(data)}, ${revoked?.at ?? null},
        ${revoked === undefined ? null : JSON.stringify(revoked)}
      ) ON CONFLICT (grant_id) DO NOTHING`
  })

  const read = (grantId: string) =>
    sql`SELECT ${columns} FROM fermata_grants WHERE grant_id = ${grantId} ${forUpdate}`

  const listed = Effect.fnUntraced(function* (filter: GrantFilter, size: number, skip: number) {
    const { agent, grantId: grant_id, runId: run_id, sessionId: session_id, tool } = filter
    const conditions = [
      sql`(data IS NOT NULL OR session_id <> '')`,
      ...equalTo(access, { run_id, session_id, grant_id, tool, agent }),
      ...(yield* afterCursor(access, filter.after, byAge))
    ]
    return yield* sql`SELECT ${columns} FROM fermata_grants WHERE ${sql.and(conditions)}
      ORDER BY given_at, grant_id LIMIT ${size}${skip === 0 ? sql`` : sql` OFFSET ${skip}`}`
  })

  /** Grants that are asked for by their run, or one by one, have to be readable; other lists go on without those that are not. */
  const grants: RunStorePort["grants"] = (filter = {}) => {
    const limit = pageSize(filter.limit)
    const entries =
      filter.runId !== undefined || filter.grantId !== undefined
        ? Effect.flatMap(query("grants", listed(filter, limit, 0)), (rows) =>
            readAll(grantKind, "grants", rows)
          )
        : page({
            operation: "grants",
            limit,
            rows: (size, skip) => listed(filter, size, skip),
            kind: grantKind
          })
    return Effect.map(entries, (found) => found.flatMap(({ stored }) => stored ?? []))
  }

  const revokeGrant: RunStorePort["revokeGrant"] = ({ given, grantId, revocation }) => {
    const find = (operation: string) =>
      Effect.flatMap(read(grantId), (rows) => readAll(grantKind, operation, rows))
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

  /** Whether the journal of the run that gave a grant says that there is a row for it. */
  const wasKept = (grantId: GrantId) => {
    const giver = runOfGrant(grantId)
    if (giver === undefined) return Effect.succeed(false)
    const said = contains("events", `"kept":"${grantId}"`)
    return Effect.map(
      sql`SELECT 1 AS found FROM fermata_journal WHERE ${journalOf(giver)} AND ${said} LIMIT 1`,
      (rows) => rows.length > 0
    )
  }

  return {
    grants,
    revokeGrant,

    /** Keeps a grant that is not kept yet, revoked where it was revoked before its run was deleted; inside a transaction. */
    insert,

    /** Revokes a grant that is kept, unless it was revoked before; inside a transaction. */
    revokeKept: ({ grantId, revocation }: Revoked): Effect.Effect<unknown, SqlError> =>
      sql`UPDATE fermata_grants SET revoked_at = ${revocation.at}, revocation = ${JSON.stringify(revocation)}
        WHERE grant_id = ${grantId} AND data IS NOT NULL AND revoked_at IS NULL AND revocation IS NULL`,

    /** Those of these grants that are kept: the ones that are revoked here, and the ones that are not. */
    standing: Effect.fnUntraced(function* (
      given: ReadonlyArray<Revoked>
    ): Effect.fn.Return<
      { readonly revoked: ReadonlyArray<GrantId>; readonly inForce: ReadonlyArray<GrantId> },
      SqlError
    > {
      const ids = [...new Set(given.map(({ grantId }) => grantId))]
      if (ids.length === 0) return { revoked: [], inForce: [] }
      const rows = yield* sql<{ readonly grant_id: GrantId; readonly is_revoked: unknown }>`
        SELECT grant_id, CASE WHEN revoked_at IS NULL AND revocation IS NULL THEN 0 ELSE 1 END AS is_revoked
        FROM fermata_grants WHERE ${sql.in("grant_id", ids)} AND data IS NOT NULL ORDER BY grant_id`
      const isRevoked = (row: (typeof rows)[number]) => Number(row.is_revoked) === 1
      return {
        revoked: rows.filter(isRevoked).map((row) => row.grant_id),
        inForce: rows.filter((row) => !isRevoked(row)).map((row) => row.grant_id)
      }
    }),

    /**
     * Those of the grants that were revoked. The others cannot be revoked before the transaction ends. One that cannot be read may have
     * been revoked, and so may one whose row is gone: nothing starts under it, and what would have is asked about.
     */
    revokedOf: Effect.fnUntraced(function* (used: ReadonlyArray<StoredGrant>, at: Timestamp) {
      const ids = used.flatMap(({ grant: { at, id } }) => [id, leftId(id, at)])
      const look = sql<{ readonly grant_id: string }>`SELECT ${columns} FROM fermata_grants
        WHERE ${sql.in("grant_id", ids)} ORDER BY grant_id ${forShare}`
      const rowsById = Effect.map(look, (rows) => new Map(rows.map((row) => [row.grant_id, row])))
      let rows = yield* rowsById
      /** The row of a grant, or what is left of it; `undefined` where there is neither. */
      const find = ({ grant }: StoredGrant) => {
        const left = rows.get(leftId(grant.id, grant.at))
        const row = left ?? rows.get(grant.id)
        if (row === undefined) return undefined
        const [entry] = sort(grantKind, [row]).sound
        const isOfEarlier = left === undefined && entry?.stored === undefined && entry?.given_at !== grant.at
        return entry !== undefined && isOfEarlier ? undefined : { entry }
      }
      const lost = new Set<StoredGrant>()
      const missing = used.filter((one) => find(one) === undefined)
      if (missing.length > 0) {
        for (const one of missing) {
          if (yield* wasKept(one.grant.id)) lost.add(one)
          // A process of an earlier version has recorded the decision, or this very transaction does.
          else yield* insert(one)
        }
        rows = yield* rowsById
      }
      return used.flatMap((one): ReadonlyArray<Revoked> => {
        const grantId = one.grant.id
        if (lost.has(one)) return [{ grantId, revocation: { by: lostRow, at } }]
        const entry = find(one)?.entry
        if (entry === undefined) return [{ grantId, revocation: { by: unreadableRow, at } }]
        const { revocation, revoked_at: revokedAt } = entry
        if (revokedAt === null) return []
        return [{ grantId, revocation: revocation ?? { by: deletedRun, at: revokedAt } }]
      })
    }),

    /** Deletes the grants that a run gave. Of revoked ones an id is left, so that a copy of the run cannot bring them back. */
    erase: Effect.fnUntraced(function* (runId: RunId) {
      yield* sql`DELETE FROM fermata_grants WHERE run_id = ${runId} AND revoked_at IS NULL AND revocation IS NULL`
      // A damaged time is replaced: what is left has to be readable.
      yield* sql`UPDATE fermata_grants SET data = NULL, revocation = NULL, agent = '', tool = '', session_id = '',
          revoked_at = CASE WHEN revoked_at BETWEEN 0 AND ${latestTime} THEN revoked_at ELSE 0 END
        WHERE run_id = ${runId}`
    })
  }
}

const byAge = { table: "fermata_grants", time: "given_at", id: "grant_id", order: ">" }

/** By whom a grant counts as revoked whose row is gone. */
const lostRow = "the store, which has lost its row"

/** By whom a grant counts as revoked that cannot be read. */
const unreadableRow = "the store, which cannot read its row"
