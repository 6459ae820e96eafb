/**
 * Closes a SQLite store to all writers for good, also to those that have it open.
 *
 * The fence is in the database: a trigger on each table refuses every row. It also stops processes of an older Fermata and frozen
 * processes, at their next write; and no call with an effect starts without a write.
 */
import type { DatabaseSync } from "node:sqlite"
import type { RunStoreError } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import { cannotOpen, openExisting, patiently } from "./file.ts"

/** Refuses all writes to a store from now on. */
export const fence = (options: {
  readonly filename: string
}): Effect.Effect<void, RunStoreError.RunStoreError> =>
  Effect.scoped(
    Effect.gen(function* () {
      const database = yield* openExisting("fence", options.filename)
      const tables = yield* patiently("fence", () => tablesOf(database))
      if (tables.length === 0)
        return yield* cannotOpen("fence", "it is not a store of Fermata. Check its name.")
      const triggers = tables.flatMap((table) => operations.map((operation) => triggerOf(table, operation)))
      yield* patiently("fence", () => {
        database.exec("PRAGMA query_only = OFF; PRAGMA synchronous = FULL; BEGIN IMMEDIATE")
        try {
          for (const { name, sql } of triggers) database.exec(`CREATE TRIGGER IF NOT EXISTS ${name} ${sql}`)
          database.exec("COMMIT")
        } catch (error) {
          if (database.isTransaction) database.exec("ROLLBACK")
          throw error
        }
      })
    })
  ).pipe(Effect.uninterruptible)

/** Removes the fence from a database that this connection may write. */
export const removeFence = (database: DatabaseSync): void => {
  const triggers = database
    .prepare(`SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name GLOB '${prefix}*'`)
    .all()
  for (const { name } of triggers) database.exec(`DROP TRIGGER "${String(name)}"`)
}

const prefix = "fermata_fence_"

/** A condition that holds in a fenced database. */
export const isFenced = `EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name GLOB '${prefix}*')`

const operations = ["INSERT", "UPDATE", "DELETE"] as const

const tablesOf = (database: DatabaseSync): ReadonlyArray<string> =>
  database
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'fermata_*'")
    .all()
    .map(({ name }) => String(name))

const triggerOf = (table: string, operation: (typeof operations)[number]) => ({
  name: `"${prefix}${operation.toLowerCase()}_${table}"`,
  sql: `BEFORE ${operation} ON "${table}" BEGIN SELECT RAISE(ABORT, 'This store is fenced.'); END`
})
