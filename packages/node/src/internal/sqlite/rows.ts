/**
 * Rows as the check of a store reads them: whatever number stands in one.
 */
import type { DatabaseSync, SQLInputValue, SQLOutputValue } from "node:sqlite"

/** A row as SQLite returns it. A whole number is a `bigint` where it is too large for a number. */
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

/** The first row of a query. */
export const rowOf = (
  database: DatabaseSync,
  sql: string,
  ...values: ReadonlyArray<SQLInputValue>
): Row | undefined => {
  for (const row of rowsOf(database, sql, ...values)) return row
  return undefined
}

/** The row with numbers in the place of integers that are numbers. */
export const narrowed = (row: Row): Row => {
  for (const name in row) {
    const value = row[name]
    if (typeof value === "bigint" && value >= least && value <= most) row[name] = Number(value)
  }
  return row
}

const least = BigInt(Number.MIN_SAFE_INTEGER)
const most = BigInt(Number.MAX_SAFE_INTEGER)
