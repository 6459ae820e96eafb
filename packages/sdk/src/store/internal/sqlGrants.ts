/**
 * Grants in SQL: one row each, looked at in the transaction that starts the calls which it lets through.
 *
 * A revocation and such a start take turns: the start locks the rows that it relies on until it is committed, so a revocation that
 * was acknowledged came before it, and is seen, or after it.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { SqlError } from "effect/sql/SqlError"
import { sentence } from "../../domain/Display.ts"
import { Grant, GrantNotFound, revoke, type Revoked, Revocation } from "../../domain/Grant.ts"
import { GrantId, type RunId, SessionId, RunId as RunIdSchema, type Timestamp } from "../../domain/Id.ts"
import type { RunStore } from "../RunStore.ts"
import { RunStoreError, StoreUnreadable } from "../RunStoreError.ts"
import type { GrantFilter, StoredGrant } from "../StoredGrant.ts"
import { pageSize } from "./bounds.ts"
import type { SqlAccess } from "./sqlAccess.ts"

/** The text columns of a row. What a run that was deleted leaves of a revoked grant has no `data`. */
const Row = Schema.Struct({
  grant_id: GrantId,
  run_id: RunIdSchema,
  /** Empty where the run was deleted. */
  session_id: Schema.Union([SessionId, Schema.Literal("")]),
  data: Schema.NullOr(Schema.fromJsonString(Grant)),
  revocation: Schema.NullOr(Schema.fromJsonString(Revocation))
})

const decodeRows = Schema.decodeUnknownEffect(Schema.Array(Row))

const damaged = (operation: string, grantIds: string) =>
  new RunStoreError({
    operation,
    reason: new StoreUnreadable({
      detail: sentence`the grant ${grantIds} is damaged or was written by a newer version of Fermata: update, or restore a backup.`
    })
  })

/** Makes the part of the store that deals with grants. */
export const makeGrants = ({ forUpdate, query, sql, write }: SqlAccess) => {
  const columns = sql.literal("grant_id, run_id, session_id, data, revocation")
  const forShare = sql.onDialectOrElse({ pg: () => sql`FOR SHARE`, orElse: () => sql.literal("") })

  const decode = (operation: string, rows: ReadonlyArray<object>) =>
    Effect.mapError(decodeRows(rows), () =>
      damaged(
        operation,
        rows.map((row) => String((row as { readonly grant_id?: unknown }).grant_id)).join(", ")
      )
    )

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

  const stored = (row: typeof Row.Type): ReadonlyArray<StoredGrant> =>
    row.data === null || row.session_id === ""
      ? []
      : [
          {
            grant: row.revocation === null ? row.data : revoke(row.data, row.revocation),
            runId: row.run_id,
            sessionId: row.session_id
          }
        ]

  const read = (grantId: string) =>
    sql`SELECT ${columns} FROM fermata_grants WHERE grant_id = ${grantId} ${forUpdate}`

  const listed = Effect.fnUntraced(function* (filter: GrantFilter) {
    const conditions = [sql`data IS NOT NULL`]
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
      ORDER BY given_at, grant_id LIMIT ${pageSize(filter.limit)}`
  })

  const grants: RunStore["Service"]["grants"] = (filter = {}) =>
    query("grants", listed(filter)).pipe(
      Effect.flatMap((rows) => decode("grants", rows)),
      Effect.map((rows) => rows.flatMap(stored))
    )

  const revokeGrant: RunStore["Service"]["revokeGrant"] = ({ given, grantId, revocation }) => {
    const find = (operation: string) => Effect.flatMap(read(grantId), (rows) => decode(operation, rows))
    return write(
      "revokeGrant",
      Effect.gen(function* () {
        if (given !== undefined) yield* insert(given)
        const [row] = yield* find("revokeGrant")
        const [found] = row === undefined ? [] : stored(row)
        if (row === undefined || found === undefined) return yield* new GrantNotFound({ grantId })
        // The first revocation stands.
        if (row.revocation !== null) return found
        yield* sql`UPDATE fermata_grants SET revoked_at = ${revocation.at}, revocation = ${JSON.stringify(revocation)}
          WHERE grant_id = ${grantId}`
        return { ...found, grant: revoke(found.grant, revocation) }
      }),
      Effect.map(find("revokeGrant"), ([row]) =>
        row === undefined || row.revocation === null ? Option.none() : Option.fromUndefinedOr(stored(row)[0])
      )
    )
  }

  return {
    grants,
    revokeGrant,

    /** Keeps a grant that is not kept yet; inside a transaction. */
    insert,

    /** Those of the grants that were revoked. The others cannot be revoked before the transaction ends. */
    revokedOf: Effect.fnUntraced(function* (used: ReadonlyArray<StoredGrant>) {
      const ids = used.map(({ grant }) => grant.id)
      const look = sql<{
        readonly grant_id: GrantId
        readonly revoked_at: number | null
        readonly revocation: string | null
      }>`SELECT grant_id, revoked_at, revocation FROM fermata_grants
        WHERE ${sql.in("grant_id", ids)} ORDER BY grant_id ${forShare}`
      let rows = yield* look
      if (rows.length < new Set(ids).size) {
        // A process of an earlier version has recorded the decision.
        for (const one of used) yield* insert(one)
        rows = yield* look
      }
      return rows.flatMap((row): ReadonlyArray<Revoked> =>
        row.revoked_at === null
          ? []
          : [{ grantId: row.grant_id, revocation: revocationOf(row.revocation, row.revoked_at) }]
      )
    }),

    /** Deletes the grants that a run gave. Of revoked ones an id is left, so that a copy of the run cannot bring them back. */
    erase: Effect.fnUntraced(function* (runId: RunId) {
      yield* sql`DELETE FROM fermata_grants WHERE run_id = ${runId} AND revoked_at IS NULL`
      yield* sql`UPDATE fermata_grants SET data = NULL, revocation = NULL, agent = '', tool = '', session_id = ''
        WHERE run_id = ${runId}`
    })
  }
}

const parseRevocation = Schema.decodeUnknownOption(Schema.fromJsonString(Revocation))

/** Who revoked a grant is not kept longer than the run that gave it. */
const revocationOf = (text: string | null, revokedAt: number | bigint): Revocation =>
  Option.getOrElse(parseRevocation(text), () => ({
    by: "a run that was deleted",
    at: Number(revokedAt) as Timestamp
  }))
