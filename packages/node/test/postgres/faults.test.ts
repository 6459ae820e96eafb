import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import type * as SqlClient from "effect/sql/SqlClient"
import { inject } from "vitest"
import { startPostgres } from "../../../../scripts/internal/postgres.ts"
import { driveUntil } from "./cashier.ts"
import { emptyDatabase, emptySchema, endConnections, withSql } from "./database.ts"
import { proxyTo } from "./proxy.ts"
import { at, create, openStore, runId, said } from "./storedRuns.ts"

const run = runId("a")

const settingOf = (sql: SqlClient.SqlClient, setting: string) =>
  sql.unsafe(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I ${setting}', current_database()); END $$`)

/** Polls until the check is true. */
const until = <E, R>(check: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(check, { until: (found) => found, schedule: Schedule.spaced("1 millis") })

/** The number of stores' sessions that wait for a lock in this database. */
const lockedOut = (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql`SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid)
      WHERE NOT granted AND application_name = 'fermata' AND datname = current_database()`,
    (rows) => rows.length
  )

// The tests mostly wait, so they run concurrently, each on its own database.
describe.concurrent("PostgresStore, when the database fails", { timeout: 300_000 }, () => {
  it.live("finishes every run, and charges once, while the server keeps ending all connections", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      // Creating the tables takes longer than the server leaves a connection here.
      yield* Effect.scoped(openStore({ url }))
      let ended = 0
      const endAll = () =>
        Effect.runPromise(
          withSql(url, (sql) =>
            Effect.map(endConnections(sql), (count) => {
              ended += count
            })
          )
        )
      const driven = yield* Effect.promise(() =>
        driveUntil(url, { atLeast: 50, disturb: endAll, enough: () => ended >= 100 })
      )
      assert.isAtLeast(driven, 50)
    })
  )

  it.live("finishes every run, and charges once, while the server crashes and starts again", () =>
    Effect.gen(function* () {
      const server = yield* Effect.acquireRelease(
        Effect.promise(() => startPostgres({ fsync: true })),
        (server) => Effect.promise(server.close)
      )
      let crashes = 0
      const crash = async () => {
        await server.restart("immediate")
        crashes += 1
      }
      const driven = yield* Effect.promise(() =>
        driveUntil(server.url, { atLeast: 50, disturb: crash, every: 20, enough: () => crashes >= 4 })
      )
      assert.isAtLeast(driven, 50)
    })
  )

  it.live(
    "finishes every run while every third write is a deadlock, a conflict of transactions or a lock",
    () =>
      Effect.gen(function* () {
        const { url } = yield* emptyDatabase
        yield* Effect.scoped(openStore({ url }))
        yield* withSql(url, (sql) =>
          Effect.gen(function* () {
            yield* sql`CREATE SEQUENCE writes`
            yield* sql`CREATE SEQUENCE failed`
            // A sequence is not rolled back: the next attempt is another write.
            yield* sql`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
            DECLARE n bigint := nextval('writes');
            BEGIN
              IF n % 3 = 0 THEN
                PERFORM nextval('failed');
                RAISE EXCEPTION 'injected' USING ERRCODE = (ARRAY['40P01', '40001', '55P03'])[1 + (n / 3) % 3];
              END IF;
              RETURN NULL;
            END $$`
            // One trigger fails within the transaction, the other at its commit.
            yield* sql`CREATE TRIGGER fail AFTER INSERT ON fermata_journal FOR EACH ROW EXECUTE FUNCTION fail()`
            yield* sql`CREATE CONSTRAINT TRIGGER fail AFTER UPDATE ON fermata_requests DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION fail()`
          })
        )
        const driven = yield* Effect.promise(() => driveUntil(url, { atLeast: 30 }))
        const [failed] = yield* withSql(url, (sql) => sql`SELECT last_value AS count FROM failed`)
        assert.isAtLeast(Number(failed?.["count"]), driven)
      })
  )

  it.live("fails with a retryable error while the database is read-only, and writes again afterwards", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const store = yield* openStore({ url, busyDeadline: "300 millis" })
      const patient = yield* openStore({ url, busyDeadline: "1 minute" })
      const lease = yield* create(store, run)
      // As after a failover: the connections end, and the new ones lead to a read-only server.
      const become = (setting: string) =>
        withSql(url, (sql) => Effect.andThen(settingOf(sql, setting), endConnections(sql)))
      const append = (to: typeof store, revision: number) =>
        to.append({ lease, expected: at(revision), events: [said("more")], status: "running" })
      yield* become("SET default_transaction_read_only = on")
      const error = yield* Effect.flip(append(store, 1))
      if (error._tag !== "RunStoreError") return assert.fail(error.message)
      assert.strictEqual(
        error.message,
        "The store failed: the database is read-only at the moment. Connect to the primary, or try again when it accepts writes."
      )
      assert.isTrue(error.isRetryable)
      assert.strictEqual((yield* store.load(run)).events.length, 1)

      const waiting = yield* Effect.forkChild(append(patient, 1), { startImmediately: true })
      yield* withSql(url, (sql) =>
        Effect.gen(function* () {
          yield* sql`SET default_transaction_read_only = off`
          yield* settingOf(sql, "RESET default_transaction_read_only")
          yield* endConnections(sql)
        })
      )
      assert.strictEqual((yield* Fiber.join(waiting)).revision, 2)
      assert.strictEqual((yield* append(patient, 2)).revision, 3)
    })
  )

  it.live("fails while the server has no connection left, and reads again when it has", () =>
    Effect.gen(function* () {
      const { name, url } = yield* emptyDatabase
      const server = inject("postgresUrl")
      const limit = (count: number) =>
        withSql(
          server,
          (sql) => sql`ALTER DATABASE ${sql(name)} CONNECTION LIMIT ${sql.literal(String(count))}`
        )
      const role = `clerk_${name}`
      yield* withSql(url, (sql) =>
        Effect.gen(function* () {
          // Limits do not hold for superusers.
          yield* sql`CREATE ROLE ${sql(role)} LOGIN PASSWORD 'clerk'`
          yield* sql`GRANT ALL ON SCHEMA public TO ${sql(role)}`
        })
      )
      yield* Effect.addFinalizer(() =>
        Effect.ignore(
          withSql(url, (sql) => sql`DROP OWNED BY ${sql(role)}`).pipe(
            Effect.andThen(withSql(server, (sql) => sql`DROP ROLE ${sql(role)}`))
          )
        )
      )
      const clerk = new URL(url)
      clerk.username = role
      clerk.password = "clerk"
      const store = yield* openStore({ url: clerk.href, busyDeadline: "300 millis", maxConnections: 1 })
      const patient = yield* openStore({ url: clerk.href, busyDeadline: "1 minute", maxConnections: 1 })
      yield* create(store, run)
      yield* limit(0)
      yield* withSql(url, endConnections)
      const error = yield* Effect.flip(store.load(run))
      assert.strictEqual(
        error.message,
        "The store failed: the database has no connection left. Allow more, or use fewer in this program; then try again."
      )
      const refused = yield* Effect.flip(
        Effect.scoped(openStore({ url: clerk.href, busyDeadline: "100 millis" }))
      )
      assert.strictEqual(refused.message, error.message)
      const waiting = yield* Effect.forkChild(patient.load(run), { startImmediately: true })
      yield* limit(-1)
      assert.strictEqual((yield* Fiber.join(waiting)).events.length, 1)
    })
  )

  it.live("unlocks a run when the server ends a session that stalled within a commit", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const proxy = yield* proxyTo(url)
      const stopped = yield* openStore({ url: proxy.url })
      // The server ends such a session after 5 seconds, long before this store gives up.
      const other = yield* openStore({ url, busyDeadline: "30 seconds" })
      const lease = yield* create(stopped, run)
      proxy.breakNextCommit("stall")
      const append = stopped.append({ lease, expected: at(1), events: [said("more")], status: "running" })
      const waiting = yield* Effect.forkChild(append, { startImmediately: true })
      yield* until(Effect.sync(() => proxy.broken() === 1))
      // The row is locked until the session is gone.
      const cancelling = yield* Effect.forkChild(other.requestCancel(run, "enough"), {
        startImmediately: true
      })
      yield* withSql(url, (sql) =>
        until(Effect.map(lockedOut(sql), (count) => count === 1 || cancelling.pollUnsafe() !== undefined))
      )
      assert.strictEqual(cancelling.pollUnsafe(), undefined)
      yield* Fiber.join(cancelling)
      assert.deepStrictEqual(yield* Fiber.join(waiting), { revision: at(2), cancelReason: "enough" })
    })
  )

  it.live("serves many more operations than it has connections", () =>
    Effect.gen(function* () {
      const { url } = yield* emptySchema
      const store = yield* openStore({ url, busyDeadline: "1 minute", maxConnections: 2 })
      const runs = Array.from({ length: 200 }, (_, index) => runId(index))
      yield* Effect.forEach(runs, (run) => create(store, run), { concurrency: "unbounded" })
      assert.strictEqual((yield* store.list({ limit: 1000 })).length, 200)
    })
  )
})
