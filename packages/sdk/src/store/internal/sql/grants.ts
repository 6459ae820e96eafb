/**
 * Grants in SQL: one row for each grant, which is read in the transaction that starts a call under the grant.
 *
 * That transaction locks the rows until it is committed. An acknowledged revocation therefore comes either before the start, and is seen,
 * or after it.
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
import { equalTo, afterCursor, makePages, pageOf } from "./pages.ts"

/** Makes the operations on grants. */
export const makeGrants = (access: SqlAccess) => {
  const { contains, forUpdate, journalOf, query, sql, write } = access
  const columns = grantColumns(access)
  const page = makePages(access)
  const forShare = sql.onDialectOrElse({ pg: () => sql`FOR SHARE`, orElse: () => sql.literal("") })

  /** The id of a deleted run's revoked grant, if a later run with the same id uses the grant's id again. */
  const deletedId = (grantId: string, at: Timestamp) => `${grantId}@${at}`

  /**
   * Prepares the insertion of a grant. If the grant was revoked before its run was deleted, deletes that row and returns the time of the
   * revocation. If the id belongs to a grant of an earlier, deleted run, moves that row to its `deletedId`.
   */
  const takeDeleted = Effect.fnUntraced(function* ({ at, id }: StoredGrant["grant"]) {
    const rows = yield* sql<{
      readonly grant_id: string
      readonly given_at: unknown
      readonly revoked_at: unknown
    }>`
      SELECT grant_id, given_at, revoked_at FROM fermata_grants
      WHERE ${sql.in("grant_id", [id, deletedId(id, at)])} AND data IS NULL ${forUpdate}`
    let revokedAt: number | undefined
    for (const { given_at, grant_id, revoked_at } of rows) {
      const givenAt = Number(given_at)
      if (grant_id !== id || givenAt === at) {
        revokedAt = Number(revoked_at)
        yield* sql`DELETE FROM fermata_grants WHERE grant_id = ${grant_id}`
        // A row with an unreadable time stays, and counts as a revocation of every grant with its id.
      } else if (Number.isSafeInteger(givenAt)) {
        yield* sql`DELETE FROM fermata_grants WHERE grant_id = ${deletedId(id, givenAt)}`
        yield* sql`UPDATE fermata_grants SET grant_id = ${deletedId(id, givenAt)} WHERE grant_id = ${id}`
      }
    }
    return revokedAt
  })

  const insert = Effect.fnUntraced(function* ({
    grant,
    runId,
    sessionId
  }: StoredGrant): Effect.fn.Return<void, SqlError> {
    const revokedAt = yield* takeDeleted(grant)
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
      ORDER BY given_at, grant_id ${pageOf(access, size, skip)}`
  })

  /** Lists by run or by id fail if a row cannot be read; other lists leave it out. */
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
        // The first revocation wins.
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

  /** Whether the journal of the run that gave a grant records that the store inserted a row for it. */
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

    /** Inserts a grant unless it is there already; as revoked, if it was revoked before its run was deleted. Inside a transaction. */
    insert,

    /** Revokes a stored grant, unless it was revoked before. Inside a transaction. */
    revokeKept: ({ grantId, revocation }: Revoked): Effect.Effect<unknown, SqlError> =>
      sql`UPDATE fermata_grants SET revoked_at = ${revocation.at}, revocation = ${JSON.stringify(revocation)}
        WHERE grant_id = ${grantId} AND data IS NOT NULL AND revoked_at IS NULL AND revocation IS NULL`,

    /** The ids of the given grants that are stored, in two lists: revoked, and in force. */
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
     * The revocations among the given grants. The other grants cannot be revoked before the transaction ends. A grant whose row cannot be
     * read, or was lost, counts as revoked, so that its calls need approval.
     */
    revokedOf: Effect.fnUntraced(function* (used: ReadonlyArray<StoredGrant>, at: Timestamp) {
      const ids = used.flatMap(({ grant: { at, id } }) => [id, deletedId(id, at)])
      const look = sql<{ readonly grant_id: string }>`SELECT ${columns} FROM fermata_grants
        WHERE ${sql.in("grant_id", ids)} ORDER BY grant_id ${forShare}`
      const rowsById = Effect.map(look, (rows) => new Map(rows.map((row) => [row.grant_id, row])))
      let rows = yield* rowsById
      /** The row of a grant, also after its run was deleted; `undefined` if there is none. */
      const find = ({ grant }: StoredGrant) => {
        const deleted = rows.get(deletedId(grant.id, grant.at))
        const row = deleted ?? rows.get(grant.id)
        if (row === undefined) return undefined
        const [entry] = sort(grantKind, [row]).sound
        const isOfEarlier =
          deleted === undefined && entry?.stored === undefined && entry?.given_at !== grant.at
        return entry !== undefined && isOfEarlier ? undefined : { entry }
      }
      const lost = new Set<StoredGrant>()
      const missing = used.filter((one) => find(one) === undefined)
      if (missing.length > 0) {
        for (const one of missing) {
          if (yield* wasKept(one.grant.id)) lost.add(one)
          // An earlier version of Fermata recorded the decision, or this transaction records it.
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

    /** Deletes the grants that a run gave. Of revoked grants, the id and the times stay, so that a copy of the run cannot bring them back. */
    erase: Effect.fnUntraced(function* (runId: RunId) {
      yield* sql`DELETE FROM fermata_grants WHERE run_id = ${runId} AND revoked_at IS NULL AND revocation IS NULL`
      // A damaged time is replaced by 0, so that the remaining row can be read.
      yield* sql`UPDATE fermata_grants SET data = NULL, revocation = NULL, agent = '', tool = '', session_id = '',
          revoked_at = CASE WHEN revoked_at BETWEEN 0 AND ${latestTime} THEN revoked_at ELSE 0 END
        WHERE run_id = ${runId}`
    })
  }
}

const byAge = { table: "fermata_grants", time: "given_at", id: "grant_id", order: ">" }

/** The `by` of a grant that counts as revoked because its row was lost. */
const lostRow = "the store, which has lost its row"

/** The `by` of a grant that counts as revoked because its row cannot be read. */
const unreadableRow = "the store, which cannot read its row"
