/**
 * Empty databases and schemas on the test server, and a connection beside the store's.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import { inject } from "vitest"

/** Runs the test's own statements on a database. */
export const withSql = <A, E>(url: string, use: (sql: SqlClient.SqlClient) => Effect.Effect<A, E>) =>
  Effect.flatMap(SqlClient.SqlClient, use).pipe(
    Effect.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 1, applicationName: "test" }))
  )

/** The URL of an empty schema: as separate as a database, and created faster. It is dropped with its database. */
export const emptySchema = Effect.suspend(() => {
  const name = nextName()
  const url = new URL(inject("postgresUrl"))
  url.searchParams.set("options", `-csearch_path=${name}`)
  return Effect.as(
    withSql(inject("postgresUrl"), (sql) => sql`CREATE SCHEMA ${sql(name)}`),
    { name, url: url.href }
  )
})

/** The URL of one schema that is emptied for each test, for tests that run one after another: faster than creating the tables again. */
export const reusedSchema = () => {
  let made: string | undefined
  return Effect.suspend(() => {
    if (made !== undefined) return Effect.as(emptyTables(made), made)
    return Effect.map(emptySchema, ({ url }) => (made = url))
  })
}

const emptyTables = (url: string) =>
  withSql(
    url,
    (sql) => sql`DO $$ DECLARE name text; BEGIN
      FOR name IN SELECT tablename FROM pg_tables
        WHERE schemaname = current_schema() AND tablename <> 'fermata_schema'
      LOOP EXECUTE format('DELETE FROM %I', name); END LOOP;
    END $$`
  )

/** The URL of an empty database, for tests that change its settings or end its connections. Dropped when the test ends. */
export const emptyDatabase = Effect.acquireRelease(
  Effect.suspend(() => {
    const name = nextName()
    const url = new URL(inject("postgresUrl"))
    url.pathname = `/${name}`
    return Effect.as(
      withSql(inject("postgresUrl"), (sql) => sql`CREATE DATABASE ${sql(name)}`),
      { name, url: url.href }
    )
  }),
  ({ name }) =>
    Effect.ignore(withSql(inject("postgresUrl"), (sql) => sql`DROP DATABASE ${sql(name)} WITH (FORCE)`))
)

/** Ends all connections of stores to the database. Returns their number. */
export const endConnections = (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'fermata'`,
    (rows) => rows.length
  )

const nextName = (): string => {
  count += 1
  return `t_${process.pid}_${Math.trunc(performance.timeOrigin)}_${count}`
}
let count = 0
