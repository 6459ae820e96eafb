import { assert, describe, it } from "@effect/vitest"
import type { RunStoreError } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import { inject } from "vitest"
import type * as PostgresStore from "../../src/PostgresStore.ts"
import { emptyDatabase, emptySchema, withSql } from "./database.ts"
import { proxyTo } from "./proxy.ts"
import { answer, asked, at, create, openStore, runId, said } from "./storedRuns.ts"

const run = runId("a")

/** Tag and message of the error of a store that does not open. Checks that the message reveals nothing. */
const refusal = (options: PostgresStore.Options) =>
  Effect.map(Effect.flip(Effect.scoped(openStore(options))), ({ message, reason }) => {
    assert.notMatch(message, /127\.0\.0\.1|secret|guest|t_\d+|SELECT|CREATE|\n/)
    return [reason._tag, message] as const
  })

const reasonOf = (error: { readonly _tag: string; readonly message: string }) =>
  error._tag === "RunStoreError" ? (error as RunStoreError.RunStoreError).reason._tag : error._tag

const urlWith = (url: string, change: (url: URL) => void): string => {
  const changed = new URL(url)
  change(changed)
  return changed.href
}

describe("PostgresStore", () => {
  it.live("names the problem of a URL, an option, a server, a login or a database", () =>
    Effect.gen(function* () {
      const { name, url } = yield* emptyDatabase
      yield* withSql(url, (sql) => sql`CREATE ROLE ${sql(`guest_${name}`)} LOGIN PASSWORD 'secret-1'`)
      yield* Effect.addFinalizer(() =>
        Effect.ignore(withSql(inject("postgresUrl"), (sql) => sql`DROP ROLE ${sql(`guest_${name}`)}`))
      )
      const busyDeadline = "100 millis"
      assert.deepStrictEqual(yield* refusal({ url: "fermata.db" }), [
        "CannotOpen",
        "The store cannot be opened: this is not its URL. Give one such as `postgres://user:password@host:5432/database`."
      ])
      const misspelt = yield* refusal({ url, transactionPoler: true } as never)
      assert.include(misspelt[1], 'did you mean "transactionPooler"?')
      const closedPort = urlWith(url, (url) => {
        url.port = "1"
      })
      assert.deepStrictEqual(yield* refusal({ url: closedPort, busyDeadline }), [
        "CannotOpen",
        "The store cannot be opened: its server does not answer. Check that it runs, and the host and the port."
      ])
      const guest = (password: string) =>
        urlWith(url, (url) => {
          url.username = `guest_${name}`
          url.password = password
        })
      const login =
        "The store cannot be opened: the database refused the login. Check the user and the password."
      assert.deepStrictEqual(yield* refusal({ url: guest("secret-2") }), ["CannotOpen", login])
      assert.deepStrictEqual(yield* refusal({ url: guest("") }), ["CannotOpen", login])
      assert.deepStrictEqual(yield* refusal({ url: guest("secret-1") }), [
        "CannotOpen",
        "The store cannot be opened: the database user may not do this. Check its rights."
      ])
      const nowhere = urlWith(url, (url) => {
        url.pathname = "/nowhere"
      })
      assert.deepStrictEqual(yield* refusal({ url: nowhere }), [
        "CannotOpen",
        "The store cannot be opened: there is no such database on the server. Create it first, or check its name."
      ])
      assert.deepStrictEqual(yield* refusal({ url, ssl: true }), [
        "CannotOpen",
        "The store cannot be opened: the connection could not be made (The server does not support TLS)."
      ])
    })
  )

  it.live("refuses tables that a newer version made and leaves them readable", () =>
    Effect.gen(function* () {
      const { url } = yield* emptySchema
      yield* Effect.scoped(Effect.flatMap(openStore({ url }), (store) => create(store, run)))
      yield* withSql(url, (sql) => sql`INSERT INTO fermata_schema VALUES (99, 0)`)
      const [tag, message] = yield* refusal({ url })
      assert.strictEqual(tag, "StoreUnreadable")
      assert.include(message, "newer version")
      yield* withSql(url, (sql) => sql`DELETE FROM fermata_schema WHERE version = 99`)
      const store = yield* openStore({ url })
      assert.strictEqual((yield* store.load(run)).events.length, 1)
    })
  )

  it.live("creates its tables once when eight stores open an empty database together", () =>
    Effect.gen(function* () {
      const { url } = yield* emptySchema
      const stores = yield* Effect.all(
        Array.from({ length: 8 }, () => openStore({ url })),
        { concurrency: "unbounded" }
      )
      yield* Effect.forEach(stores, (store, index) => create(store, runId(index)))
      assert.strictEqual((yield* stores[0]!.list()).length, 8)
      const versions = yield* withSql(url, (sql) => sql`SELECT version FROM fermata_schema ORDER BY version`)
      assert.deepStrictEqual(
        versions.map(({ version }) => version),
        versions.map((_, index) => index + 1)
      )
    })
  )

  it.live("accepts each of 400 decisions from exactly one of four stores", () =>
    Effect.gen(function* () {
      const { url } = yield* emptySchema
      const stores = yield* Effect.forEach(["ann", "ben", "cleo", "dan"], (by) =>
        Effect.map(openStore({ url, maxConnections: 4 }), (store) => ({ by, store }))
      )
      const runs = Array.from({ length: 400 }, (_, index) => runId(index))
      yield* Effect.forEach(runs, (run) => create(stores[0]!.store, run, asked(run)), { concurrency: 4 })
      const outcomes = yield* Effect.forEach(
        stores,
        ({ by, store }) =>
          Effect.forEach(runs, (run) => Effect.result(answer(store, run, by)), { concurrency: 4 }),
        { concurrency: "unbounded" }
      )
      for (const [index, run] of runs.entries()) {
        const results = outcomes.map((own) => own[index]!)
        const winners = stores.filter((_, who) => results[who]?._tag === "Success").map(({ by }) => by)
        assert.strictEqual(winners.length, 1, run)
        for (const result of results) {
          if (result._tag === "Success") continue
          if (result.failure._tag !== "AlreadyDecided") return assert.fail(result.failure.message)
          assert.strictEqual(result.failure.by, winners[0])
        }
        const [decision] = yield* stores[0]!.store.decisions(run)
        assert.strictEqual(decision?.by, winners[0])
      }
    })
  )

  it.live("fails with StoreBusy while a row is locked, reads meanwhile, and appends again afterwards", () =>
    Effect.gen(function* () {
      const { url } = yield* emptySchema
      const store = yield* openStore({ url, busyDeadline: "3 seconds" })
      const lease = yield* create(store, run)
      const append = store.append({ lease, expected: at(1), events: [said("1")], status: "running" })
      yield* withSql(url, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT run_id FROM fermata_runs FOR UPDATE`
            assert.strictEqual(reasonOf(yield* Effect.flip(append)), "StoreBusy")
            assert.strictEqual((yield* store.load(run)).events.length, 1)
          })
        )
      )
      assert.deepStrictEqual(yield* append, { revision: at(2) })
    })
  )

  it.live("keeps an event of 20 MB", () =>
    Effect.gen(function* () {
      const { url } = yield* emptySchema
      const store = yield* openStore({ url })
      const lease = yield* create(store, run)
      const event = said("x".repeat(20_000_000))
      yield* store.append({ lease, expected: at(1), events: [event], status: "running" })
      assert.deepStrictEqual((yield* store.events(run, { from: 1 }))[0], event)
    })
  )

  for (const transactionPooler of [false, true]) {
    for (const [setting, seen] of [
      ["off", "on"],
      ["remote_apply", "remote_apply"]
    ]) {
      it.live(
        `commits with synchronous_commit = ${seen} where ${setting} is the default${transactionPooler ? ", through a pooler" : ""}`,
        () =>
          Effect.gen(function* () {
            const { url } = yield* emptyDatabase
            yield* withSql(url, (sql) =>
              Effect.gen(function* () {
                yield* sql.unsafe(
                  `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = ${setting}', current_database()); END $$`
                )
                yield* sql`CREATE TABLE seen (synchronous_commit text)`
                yield* sql`CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
                  BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$`
              })
            )
            const store = yield* openStore({ url, transactionPooler })
            yield* withSql(
              url,
              (sql) => sql`CREATE TRIGGER see BEFORE INSERT OR UPDATE ON fermata_runs EXECUTE FUNCTION see()`
            )
            const lease = yield* create(store, run)
            // A write of a single statement.
            yield* store.renew(lease, "1 minute")
            const settings = yield* withSql(url, (sql) => sql`SELECT synchronous_commit AS value FROM seen`)
            assert.deepStrictEqual(settings, [{ value: seen }, { value: seen }])
          })
      )
    }
  }

  it.live("leaves no advisory lock, session setting or prepared statement behind a pooler", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const proxy = yield* proxyTo(url)
      const store = yield* openStore({ url: proxy.url, transactionPooler: true })
      const lease = yield* create(store, run, asked(run))
      yield* answer(store, run, "ann")
      yield* store.append({ lease, expected: at(1), events: [said("1")], status: "running" })
      yield* store.load(run)
      yield* store.release(lease)
      const locks = yield* withSql(
        url,
        (sql) => sql`SELECT locktype FROM pg_locks WHERE locktype = 'advisory'
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
      )
      assert.deepStrictEqual(locks, [])
      assert.isAbove(proxy.sent.length, 20)
      for (const { isNamed, text } of proxy.sent) {
        assert.isFalse(isNamed, text)
        assert.notMatch(text, /^\s*(SET(?! LOCAL)|LISTEN|PREPARE|DECLARE)\b|\bTEMP\b|pg_advisory_lock/i)
      }
    })
  )
})
