/**
 * Counts the use of SQLite in this process, through Node's own driver: statements, and rows that were returned or changed.
 */
import { StatementSync } from "node:sqlite"

let statements = 0
let rows = 0

const counting = (name: "run" | "all" | "get", rowsOf: (result: unknown) => number): void => {
  const original = Reflect.get(StatementSync.prototype, name) as (
    ...values: ReadonlyArray<unknown>
  ) => unknown
  Object.assign(StatementSync.prototype, {
    [name](this: StatementSync, ...values: ReadonlyArray<unknown>): unknown {
      const result = Reflect.apply(original, this, values)
      statements += 1
      rows += rowsOf(result)
      return result
    }
  })
}

/** Counts from now on, on every connection. */
export const countStatements = (): void => {
  counting("run", (result) => Number((result as { readonly changes: number | bigint }).changes))
  counting("all", (result) => (result as ReadonlyArray<unknown>).length)
  counting("get", (result) => (result === undefined ? 0 : 1))
}

/** The counts so far. */
export const counted = (): { readonly statements: number; readonly rows: number } => ({ statements, rows })
