/**
 * Finds the rows that lists leave out, by reading all heads, requests and grants.
 */
import * as Effect from "effect/Effect"
import type { Fragment } from "effect/sql/Statement"
import type { DamagedRun, RunStorePort } from "../../RunStorePort.ts"
import type { SqlAccess } from "./access.ts"
import { sort, type Sorted } from "./damage.ts"
import { grantColumns, grantKind } from "./grantRows.ts"
import { requestColumns, requestKind } from "./requestRows.ts"
import { headColumns, headKind, messageKind } from "./rows.ts"

/** A table, with the column by which its rows are ordered. */
interface Table {
  readonly name: string
  readonly key: string
  readonly columns: Fragment
  readonly sort: (rows: ReadonlyArray<unknown>) => Sorted<unknown>
}

/** Makes the `damaged` operation. */
export const makeInspection = (access: SqlAccess): Pick<RunStorePort, "damaged"> => {
  const { query, sql } = access
  const tables: ReadonlyArray<Table> = [
    { name: "fermata_runs", key: "run_id", columns: headColumns(access), sort: sorts.runs },
    { name: "fermata_requests", key: "request_id", columns: requestColumns(access), sort: sorts.requests },
    { name: "fermata_grants", key: "grant_id", columns: grantColumns(access), sort: sorts.grants }
  ]

  const inspect = Effect.fnUntraced(function* (table: Table, found: Array<DamagedRun>) {
    const key = sql(table.key)
    let onward = sql`1 = 1`
    while (found.length < mostFound) {
      const rows: ReadonlyArray<Readonly<Record<string, unknown>>> = yield* query(
        "damaged",
        sql`SELECT ${table.columns} FROM ${sql(table.name)} WHERE ${onward} ORDER BY ${key} LIMIT ${pageSize}`
      )
      found.push(...table.sort(rows).damaged)
      if (rows.length < pageSize) return
      onward = sql`${key} > ${rows.at(-1)?.[table.key]}`
      // A database in this process (SQLite) blocks the event loop during a query.
      yield* Effect.yieldNow
    }
  })

  return {
    damaged: Effect.gen(function* () {
      const found: Array<DamagedRun> = []
      for (const table of tables) yield* inspect(table, found)
      return found.slice(0, mostFound)
    })
  }
}

/** The tables whose rows can be checked one by one. */
const sorts = {
  runs: (rows: ReadonlyArray<unknown>) => sort(headKind, rows),
  requests: (rows: ReadonlyArray<unknown>) => sort(requestKind, rows),
  messages: (rows: ReadonlyArray<unknown>) => sort(messageKind, rows),
  grants: (rows: ReadonlyArray<unknown>) => sort(grantKind, rows)
}

/** Returns a sentence for each row that the store cannot read. The rows must have all columns of their table. */
export const rowProblems = (
  table: keyof typeof sorts,
  rows: ReadonlyArray<Readonly<Record<string, unknown>>>
): ReadonlyArray<string> => sorts[table](rows).damaged.map(({ problem }) => problem)

const pageSize = 500
const mostFound = 1000
