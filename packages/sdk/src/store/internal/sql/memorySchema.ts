/**
 * The tables of memory. They are made by the first use of memory and have versions of their own, apart from those of the runs: a Fermata
 * that does not know them continues to use the store.
 *
 * Triggers delete the rows of a removed run, whichever version of Fermata removes it. A migration that makes `fermata_runs` anew has to make
 * `fermata_memory_run` anew, too.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { RunStoreError } from "../../RunStoreError.ts"
import { unreadable } from "../journal.ts"
import type { SqlAccess } from "./access.ts"

/** The version of the tables. */
const version = 1

/** Makes the tables unless they exist. Fails with `StoreUnreadable` if a newer version made them. */
export const makeMemoryTables = (access: SqlAccess): Effect.Effect<void, RunStoreError> =>
  Effect.flatMap(versionOf(access), (found) => {
    if (found === undefined) return create(access)
    return found > version
      ? Effect.fail(
          unreadable(
            "memory",
            `its memory was written by a newer version of Fermata (tables ${found}, this one knows ${version}): update, then use it again.`
          )
        )
      : Effect.void
  })

/** The version of the tables; `undefined` if there are none. */
const versionOf = ({ query, run, sql }: SqlAccess): Effect.Effect<number | undefined, RunStoreError> =>
  query(
    "memory",
    Effect.gen(function* () {
      const tables = yield* run(
        sql.onDialectOrElse({
          pg: () => sql`SELECT 1 AS found WHERE to_regclass('fermata_memory_schema') IS NOT NULL`,
          orElse: () => sql`SELECT 1 AS found FROM sqlite_schema WHERE name = 'fermata_memory_schema'`
        })
      )
      if (tables.length === 0) return undefined
      const [row] = yield* run(
        sql<{ readonly version: number | null }>`SELECT max(version) AS version FROM fermata_memory_schema`
      )
      return row?.version == null ? undefined : Number(row.version)
    })
  )

const create = ({ lockNumber, sql, write }: SqlAccess): Effect.Effect<void, RunStoreError> =>
  write(
    "memory",
    Effect.gen(function* () {
      // Two processes may create the tables at once. The number is Fermata's own.
      yield* lockNumber(7306086968)
      for (const statement of tables(sql)) yield* statement
      const at = yield* Clock.currentTimeMillis
      yield* sql`INSERT INTO fermata_memory_schema (version, applied_at) VALUES (${version}, ${at})
        ON CONFLICT (version) DO NOTHING`
    }),
    // A second attempt finds the tables.
    Effect.succeedNone
  )

const tables = (sql: SqlClient): ReadonlyArray<Effect.Effect<unknown, SqlError>> => [
  sql`CREATE TABLE IF NOT EXISTS fermata_memory_schema (version integer NOT NULL PRIMARY KEY, applied_at bigint NOT NULL)`,
  // The next position is above all that a scope had, also before its rows were deleted: it begins with the time.
  sql`CREATE TABLE IF NOT EXISTS fermata_memory_scopes (
    scope text NOT NULL PRIMARY KEY,
    next bigint NOT NULL,
    removed bigint NOT NULL
  )`,
  sql`CREATE TABLE IF NOT EXISTS fermata_memory (
    id text NOT NULL PRIMARY KEY,
    scope text NOT NULL,
    position bigint NOT NULL,
    kind text NOT NULL,
    run_id text,
    session_id text,
    sequence bigint,
    role text,
    name text,
    at bigint NOT NULL,
    version integer NOT NULL,
    source text,
    terms text NOT NULL,
    text text NOT NULL
  )`,
  sql`CREATE INDEX IF NOT EXISTS fermata_memory_scope ON fermata_memory (scope, position)`,
  sql`CREATE INDEX IF NOT EXISTS fermata_memory_session ON fermata_memory (session_id, sequence) WHERE session_id IS NOT NULL`,
  sql`CREATE INDEX IF NOT EXISTS fermata_memory_run ON fermata_memory (run_id) WHERE run_id IS NOT NULL`,
  ...sql.onDialectOrElse({
    pg: () => [
      sql`CREATE OR REPLACE FUNCTION fermata_memory_forget_run() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN DELETE FROM fermata_memory WHERE run_id = OLD.run_id; RETURN NULL; END $$`,
      sql`CREATE OR REPLACE TRIGGER fermata_memory_of_run AFTER DELETE ON fermata_runs
        FOR EACH ROW EXECUTE FUNCTION fermata_memory_forget_run()`,
      sql`CREATE OR REPLACE FUNCTION fermata_memory_count_removed() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          UPDATE fermata_memory_scopes SET removed = removed + 1 WHERE scope = OLD.scope;
          DELETE FROM fermata_memory_scopes AS mark WHERE mark.scope = OLD.scope
            AND NOT EXISTS (SELECT 1 FROM fermata_memory AS memory WHERE memory.scope = OLD.scope);
          RETURN NULL;
        END $$`,
      sql`CREATE OR REPLACE TRIGGER fermata_memory_removed AFTER DELETE ON fermata_memory
        FOR EACH ROW EXECUTE FUNCTION fermata_memory_count_removed()`
    ],
    orElse: () => [
      sql`CREATE TRIGGER IF NOT EXISTS fermata_memory_of_run AFTER DELETE ON fermata_runs
        BEGIN DELETE FROM fermata_memory WHERE run_id = OLD.run_id; END`,
      sql`CREATE TRIGGER IF NOT EXISTS fermata_memory_removed AFTER DELETE ON fermata_memory
        BEGIN
          UPDATE fermata_memory_scopes SET removed = removed + 1 WHERE scope = OLD.scope;
          DELETE FROM fermata_memory_scopes WHERE scope = OLD.scope
            AND NOT EXISTS (SELECT 1 FROM fermata_memory WHERE scope = OLD.scope);
        END`
    ]
  })
]
