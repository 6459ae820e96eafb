/**
 * Memory in SQL. See `memorySchema.ts` for the tables.
 *
 * The mark of a scope is updated before its rows are inserted, so that writers of one scope wait for each other, and a reader that has seen a
 * position has seen all lower ones.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SqlError } from "effect/sql/SqlError"
import { defined } from "../../../domain/internal/defined.ts"
import type { MemoryPort, MemoryRow, ScopeMark, StoredMemory } from "../../MemoryPort.ts"
import { pageSize } from "../bounds.ts"
import { inOrder, newMark } from "../recollections.ts"
import type { SqlAccess } from "./access.ts"
import { makeMemoryTables } from "./memorySchema.ts"

interface Row {
  readonly id: string
  readonly scope: string
  readonly position: number | bigint
  readonly kind: MemoryRow["kind"]
  readonly run_id: MemoryRow["runId"] | null
  readonly session_id: MemoryRow["sessionId"] | null
  readonly sequence: number | bigint | null
  readonly role: MemoryRow["role"] | null
  readonly name: string | null
  readonly at: number | bigint
  readonly version: number
  readonly source: string | null
  readonly terms: string
  readonly text: string
}

const columns =
  "id, scope, position, kind, run_id, session_id, sequence, role, name, at, version, source, terms, text"

/** Makes the operations on memory. `afterErase` runs when something was deleted. */
export const makeMemoryRows = (
  access: SqlAccess,
  afterErase: Effect.Effect<void>
): {
  readonly port: MemoryPort
  /** Stores rows inside a transaction. */
  readonly insert: (rows: ReadonlyArray<MemoryRow>) => Effect.Effect<void, SqlError>
} => {
  const { query, run, sql, write } = access
  const all = sql.literal(columns)
  // SQLite then reads no page of a long text.
  const withoutText = sql.literal(columns.replace(/text$/, "'' AS text"))
  let isMade = false
  const making = Effect.tap(makeMemoryTables(access), () =>
    // What a transaction of the caller makes may be rolled back.
    Effect.match(access.requireNoTransaction("memory"), {
      onSuccess: () => {
        isMade = true
      },
      onFailure: () => {}
    })
  )
  const made = Effect.suspend(() => (isMade ? Effect.void : making))

  const insertRow = (row: MemoryRow, position: number, replace: boolean) => {
    const { at, id, key, kind, role, runId, scope, sequence, sessionId, source, terms, text, version } = row
    const inserted = sql`INSERT INTO fermata_memory (${all}) VALUES (${id}, ${scope}, ${position}, ${kind}, ${runId ?? null},
      ${sessionId ?? null}, ${sequence ?? null}, ${role ?? null}, ${key ?? null}, ${at}, ${version}, ${source ?? null},
      ${terms}, ${text})`
    return run(
      kind === "message" && !replace
        ? sql`${inserted} ON CONFLICT (id) DO NOTHING`
        : sql`${inserted} ON CONFLICT (id) DO UPDATE SET scope = excluded.scope, position = excluded.position,
            run_id = excluded.run_id, session_id = excluded.session_id, at = excluded.at, version = excluded.version,
            source = excluded.source, terms = excluded.terms, text = excluded.text
            WHERE excluded.at >= fermata_memory.at AND fermata_memory.text <> ''`
    )
  }

  const insert = Effect.fnUntraced(function* (rows: ReadonlyArray<MemoryRow>, replace = false) {
    const at = yield* Clock.currentTimeMillis
    const scopes = Map.groupBy(inOrder(rows), ({ scope }) => scope)
    for (const [scope, its] of scopes) {
      const [mark] = yield* run(
        sql<{ readonly next: number | bigint }>`INSERT INTO fermata_memory_scopes (scope, next, removed)
          VALUES (${scope}, ${at + its.length}, ${newMark()})
          ON CONFLICT (scope) DO UPDATE SET next = fermata_memory_scopes.next + ${its.length} RETURNING next`
      )
      const first = Number(mark?.next) - its.length
      for (const [index, row] of its.entries()) yield* insertRow(row, first + index, replace)
    }
  })

  const port: MemoryPort = {
    write: (rows, { replace = false } = {}) =>
      Effect.andThen(made, write("memory.write", insert(rows, replace), Effect.succeed(Option.none()))),
    indexed: (sessionId) =>
      Effect.andThen(
        made,
        query(
          "memory.indexed",
          Effect.map(
            run(
              sql<{ readonly last: number | bigint | null }>`SELECT max(sequence) AS last FROM fermata_memory
                WHERE session_id = ${sessionId}`
            ),
            ([row]) => (row?.last == null ? 0 : Number(row.last) + 1)
          )
        )
      ),
    marks: (scopes) =>
      scopes.length === 0
        ? Effect.succeed([])
        : Effect.andThen(
            made,
            query(
              "memory.marks",
              Effect.map(
                run(
                  sql<ScopeMark>`SELECT scope, next, removed FROM fermata_memory_scopes WHERE ${sql.in("scope", scopes)}`
                ),
                (rows) =>
                  rows.map(({ next, removed, scope }) => ({
                    scope,
                    next: Number(next),
                    removed: Number(removed)
                  }))
              )
            )
          ),
    list: ({ after, kind, limit, scope, sessionId, termsOnly = false }) => {
      const conditions = [
        ...(scope === undefined ? [] : [sql`scope = ${scope}`]),
        ...(kind === undefined ? [] : [sql`kind = ${kind}`]),
        ...(sessionId === undefined ? [] : [sql`session_id = ${sessionId}`]),
        ...(after === undefined ? [] : [sql`position > ${after}`]),
        ...(termsOnly ? [] : [sql`text <> ''`])
      ]
      const where = conditions.length === 0 ? sql.literal("") : sql`WHERE ${sql.and(conditions)}`
      return Effect.andThen(
        made,
        query(
          "memory.list",
          Effect.map(
            run(
              sql<Row>`SELECT ${termsOnly ? withoutText : all} FROM fermata_memory ${where} ORDER BY scope, position LIMIT ${pageSize(limit)}`
            ),
            (rows) => rows.map(storedOf)
          )
        )
      )
    },
    read: (ids) =>
      ids.length === 0
        ? Effect.succeed([])
        : Effect.andThen(
            made,
            query(
              "memory.read",
              Effect.map(
                run(sql<Row>`SELECT ${all} FROM fermata_memory WHERE ${sql.in("id", ids)}`),
                (rows) => rows.map(storedOf)
              )
            )
          ),
    forget: (removal) => {
      const which =
        "ids" in removal
          ? sql.in("id", removal.ids)
          : "scope" in removal
            ? sql`scope = ${removal.scope}`
            : sql`session_id = ${removal.sessionId}`
      if ("ids" in removal && removal.ids.length === 0) return Effect.succeed(0)
      const erasing = Effect.gen(function* () {
        if (!("ids" in removal))
          return (yield* sql`DELETE FROM fermata_memory WHERE ${which} RETURNING id`).length
        const facts = yield* sql`DELETE FROM fermata_memory WHERE ${which} AND kind = 'fact' RETURNING id`
        const emptied = yield* sql<{ readonly scope: string }>`UPDATE fermata_memory
          SET text = '', terms = '', source = NULL WHERE ${which} AND kind = 'message' AND text <> '' RETURNING scope`
        for (const scope of new Set(emptied.map(({ scope }) => scope)))
          yield* sql`UPDATE fermata_memory_scopes SET removed = removed + 1 WHERE scope = ${scope}`
        return facts.length + emptied.length
      })
      return Effect.andThen(
        made,
        Effect.tap(write("memory.forget", erasing, Effect.succeed(Option.none())), (count) =>
          count === 0 ? Effect.void : access.afterCommit(afterErase)
        )
      )
    }
  }
  return { port, insert }
}

const storedOf = (row: Row): StoredMemory => ({
  id: row.id,
  scope: row.scope,
  position: Number(row.position),
  kind: row.kind,
  at: Number(row.at),
  version: row.version,
  terms: row.terms,
  text: row.text,
  ...defined({
    runId: row.run_id ?? undefined,
    sessionId: row.session_id ?? undefined,
    sequence: row.sequence === null ? undefined : Number(row.sequence),
    role: row.role ?? undefined,
    key: row.name ?? undefined,
    source: row.source ?? undefined
  })
})
