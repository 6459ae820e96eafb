/**
 * Postgres databases for simulated processes: one server, and tables that are emptied before each world.
 */
import { SqlRunStore } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { openPostgres, startPostgres } from "../internal/postgres.ts"
import { connect, makeSessions, makeWork, type Sessions, type Work } from "./postgresSessions.ts"
import {
  type Database,
  contentTables,
  countUnused,
  type Databases,
  endLeases,
  everyStatus,
  lostRows,
  runTables,
  startingBatches
} from "./world.ts"

const emptiable = [...runTables, ...contentTables]
const tables = ["fermata_runs", ...emptiable]

/** Worlds between two truncations: deleted rows stay in the tables until then. */
const worldsUntilTruncate = 100

/** Makes databases on a server of our own, or on the one that `FERMATA_TEST_PG_URL` names. */
export const postgresDatabases = async (): Promise<Databases> => {
  const server =
    (process.env["FERMATA_TEST_PG_URL"] ?? "") === ""
      ? await startPostgres({ settings: { autovacuum: "off", deadlock_timeout: "20ms" } })
      : await openPostgres()
  const scope = await Effect.runPromise(Scope.make())
  const session = (url: string, parameters: Readonly<Record<string, string>>) =>
    Effect.runPromise(Scope.provide(connect(url, parameters), scope))
  // A separate session: a simulated process may be in the middle of a statement on the others.
  const watch = await session(server.url, {})
  const kinds = ["first", "second", "fresh"] as const
  const free: { readonly [kind in (typeof kinds)[number]]: Array<Control> } = {
    first: [],
    second: [],
    fresh: []
  }
  for (const kind of kinds) {
    for (let index = 1; index <= worlds; index++) {
      const name = `campaign_${process.pid}_${kind}_${index}`
      const url = await server.database(name)
      const client = await session(url, { lock_timeout: "1" })
      free[kind].push({ name, client, sessions: makeSessions(url, client), worlds: 0 })
    }
  }

  return {
    make: (name, { empty }) =>
      Effect.gen(function* () {
        const idle = free[empty ? "fresh" : name]
        const control = idle.pop()!
        yield* empty ? dropTables(control) : emptyTables(control)
        const close = Effect.sync(() => {
          idle.push(control)
        })
        return { ...databaseOf(control, makeWork(watch, control.name)), close }
      }).pipe(Effect.orDie),
    worlds,
    close: async () => {
      await Effect.runPromise(Scope.close(scope, Exit.void))
      await server.close()
    }
  }
}

/** Worlds at a time: the sessions of one world mostly wait for the server. */
const worlds = 4

/** A session that no process owns, on one of the databases. */
interface Control {
  readonly name: string
  readonly client: SqlClient.SqlClient
  /** The sessions of the processes. */
  readonly sessions: Sessions
  worlds: number
}

const dropTables = ({ client: sql, sessions }: Control) =>
  Effect.all([sessions.dropAll, sql`DROP SCHEMA public CASCADE`, sql`CREATE SCHEMA public`])

const emptyTables = (control: Control) => {
  const { client: sql } = control
  const turn = control.worlds++ % worldsUntilTruncate
  if (turn > 0) {
    const emptied = emptiable.map((table) => `empty_${table} AS (DELETE FROM ${table})`)
    return sql.unsafe(`WITH ${emptied.join(", ")} DELETE FROM fermata_runs`)
  }
  return Effect.andThen(
    Effect.provideService(SqlRunStore.make(), SqlClient.SqlClient, sql),
    sql.unsafe(`TRUNCATE ${tables.join(", ")}`)
  )
}

/** All rows, as text. */
export const dumpTables = (sql: SqlClient.SqlClient): Effect.Effect<ReadonlyArray<string>> =>
  Effect.forEach(tables, (table) =>
    sql.unsafe<{ readonly row: string }>(`SELECT t::text AS row FROM ${table} t`)
  ).pipe(
    Effect.map((tables) => tables.flat().map(({ row }) => row)),
    Effect.orDie
  )

const databaseOf = ({ client: sql, sessions }: Control, work: Work): Omit<Database, "close"> => {
  const unlessLocked = (effect: Effect.Effect<unknown, SqlError>) =>
    work.during(effect).pipe(
      Effect.as(true),
      Effect.catchIf(
        (error) => error.reason._tag === "LockTimeoutError",
        () => Effect.succeed(false)
      ),
      Effect.orDie
    )
  let ended = 0
  const exists = work.during(
    Effect.orDie(
      Effect.map(sql`SELECT FROM pg_tables WHERE tablename = 'fermata_runs'`, ({ length }) => length > 0)
    )
  )

  return {
    open: sessions.open(work),
    expireLeases: Effect.flatMap(exists, (known) =>
      known ? unlessLocked(sql.unsafe(endLeases(++ended))) : Effect.succeed(true)
    ),
    batches: work.during(sql.unsafe<{ readonly events: string }>(startingBatches)).pipe(
      Effect.map((rows) => rows.map(({ events }) => events)),
      Effect.orDie
    ),
    statuses: work.during(sql.unsafe<{ readonly run_id: string; readonly status: string }>(everyStatus)).pipe(
      Effect.map((rows) => new Map(rows.map(({ run_id, status }) => [run_id, status]))),
      Effect.orDie
    ),
    execute: (statement, parameters) => {
      let count = 0
      const numbered = statement.replaceAll("?", () => `$${++count}`)
      return Effect.asVoid(unlessLocked(sql.unsafe(numbered, parameters)))
    },
    damage: Effect.gen(function* () {
      const open = yield* sql`SELECT pid FROM pg_stat_activity WHERE datname = current_database()
        AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle'`
      if (open.length > 0) return `${open.length} sessions are in the middle of something`
      const lost: Array<string> = []
      for (const table of runTables) {
        if ((yield* sql.unsafe(lostRows(table))).length > 0) lost.push(table)
      }
      return lost.length === 0 ? undefined : `rows of no run in ${lost.join(" and ")}`
    }).pipe(Effect.orDie),
    unusedContents: Effect.orDie(
      Effect.map(sql.unsafe<{ readonly count: string }>(countUnused), ([row]) => Number(row?.count))
    ),
    dump: dumpTables(sql),
    activity: work.activity
  }
}
