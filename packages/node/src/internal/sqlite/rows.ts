/**
 * Rows for the check of a store, with integers of any size.
 */
import type { DatabaseSync, SQLInputValue, SQLOutputValue } from "node:sqlite"

/** A row as SQLite returns it. An integer beyond the range of a number is a `bigint`. */
export type Row = Record<string, SQLOutputValue>

/** The rows of a query, one by one. */
export function* rowsOf(
  database: DatabaseSync,
  sql: string,
  ...values: ReadonlyArray<SQLInputValue>
): Generator<Row> {
  const statement = database.prepare(sql)
  statement.setReadBigInts(true)
  for (const row of statement.iterate(...values)) yield narrowed(row)
}

/** The first row of a query; `undefined` if there is none. */
export const rowOf = (
  database: DatabaseSync,
  sql: string,
  ...values: ReadonlyArray<SQLInputValue>
): Row | undefined => {
  for (const row of rowsOf(database, sql, ...values)) return row
  return undefined
}

/** Replaces the integers of a row that a number holds exactly by numbers, in place, and returns the row. */
export const narrowed = (row: Row): Row => {
  for (const name in row) {
    const value = row[name]
    if (typeof value === "bigint" && value >= least && value <= most) row[name] = Number(value)
  }
  return row
}

const least = BigInt(Number.MIN_SAFE_INTEGER)
const most = BigInt(Number.MAX_SAFE_INTEGER)
