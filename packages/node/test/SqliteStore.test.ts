import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import { Id } from "@fermata/sdk"
import { RunStore, SqlRunStore } from "@fermata/sdk/store"
import { RunStoreContract } from "@fermata/sdk/testing"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as References from "effect/References"
import * as SqlClient from "effect/sql/SqlClient"
import * as TestClock from "effect/testing/TestClock"
import * as SqliteClient from "../src/internal/sqlite/client.ts"
import * as SqliteStore from "../src/SqliteStore.ts"
import { temporaryDirectory, temporaryFile } from "./temporaryStore.ts"

const suite = RunStoreContract.suite({ assert, describe, it })
suite("SQLite in memory", SqliteStore.layer({ filename: ":memory:" }))

/** The file of the test that runs. */
let current = ""
const setBack = (milliseconds: number) =>
  Effect.sync(() =>
    raw(current, (db) => db.exec(`UPDATE fermata_runs SET lease_until = lease_until + ${milliseconds}`))
  )
suite(
  "SQLite file",
  Layer.unwrap(
    Effect.map(temporaryFile, (filename) => {
      current = filename
      return SqliteStore.layer({ filename })
    })
  ),
  { setBack }
)

RunStoreContract.contentsSuite({ assert, describe, it })(
  "SQLite file with a directory of contents",
  Layer.unwrap(
    Effect.map(Effect.all([temporaryFile, temporaryDirectory]), ([filename, contents]) => {
      current = filename
      return SqliteStore.layer({ filename, contents })
    })
  ),
  { setBack }
)

const runId = Id.RunId.make("run_a")
const said = (text: string) => ({ _tag: "message.queued", at: 1, content: [{ _tag: "text", text }] }) as const
const create = (store: RunStore.RunStore["Service"]) =>
  store.create({
    runId,
    sessionId: Id.SessionId.make("s"),
    agent: "root",
    events: [said("0")],
    status: "running",
    owner: "me",
    ttl: "1 hour"
  })
const at = (revision: number) => Id.Revision.make(revision)

const withStore = <A, E>(
  options: SqliteStore.Options,
  use: (store: RunStore.RunStore["Service"]) => Effect.Effect<A, E>
) => Effect.provide(Effect.flatMap(RunStore.RunStore, use), Layer.fresh(SqliteStore.layer(options)))

const openError = (filename: string) =>
  Effect.map(Effect.flip(withStore({ filename }, () => Effect.void)), ({ message, reason }) => {
    assert.isTrue(!message.includes("fermata-store-") && !message.includes("/"), message)
    return [reason._tag, message] as const
  })

describe("SqliteStore", () => {
  it.effect("keeps runs across a reopen", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore({ filename }, create)
      const { events, head } = yield* withStore({ filename, synchronous: "normal" }, (store) =>
        store.load(runId)
      )
      assert.deepStrictEqual(events, [said("0")])
      assert.strictEqual(head.lease?.owner, "me")
    })
  )

  it.effect("fails with CannotOpen for a directory, a path in no directory, a NUL and an empty path", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      mkdirSync(join(directory, "folder.db"))
      writeFileSync(join(directory, "file"), "text")
      const open = (...path: ReadonlyArray<string>) => openError(join(directory, ...path))
      assert.deepStrictEqual(yield* open("folder.db"), [
        "CannotOpen",
        "The store cannot be opened: it is a directory. Give the name of a file in it."
      ])
      const missing = "The store cannot be opened: its directory does not exist. Create it first."
      assert.deepStrictEqual(yield* open("none", "runs.db"), ["CannotOpen", missing])
      assert.deepStrictEqual(yield* open("file", "runs.db"), ["CannotOpen", missing])
      assert.strictEqual((yield* open("nul\0.db"))[0], "CannotOpen")
      assert.strictEqual((yield* openError(""))[0], "CannotOpen")
    })
  )

  it.effect("refuses a file that is not a database and leaves it unchanged", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const text = "Dear diary, ".repeat(1000)
      writeFileSync(filename, text)
      assert.deepStrictEqual(yield* openError(filename), [
        "StoreUnreadable",
        "The store cannot be read: the file is not a database. Choose another file, or move this one away."
      ])
      assert.strictEqual(readFileSync(filename, "utf8"), text)
    })
  )

  it.effect("refuses tables that a newer version made and leaves them readable", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore({ filename }, create)
      raw(filename, (db) => db.exec("INSERT INTO fermata_schema VALUES (99, 0)"))
      const [tag, message] = yield* openError(filename)
      assert.strictEqual(tag, "StoreUnreadable")
      assert.isTrue(message.includes("newer version"))
      raw(filename, (db) => db.exec("DELETE FROM fermata_schema WHERE version = 99"))
      yield* withStore({ filename }, (store) => store.load(runId))
    })
  )

  it.effect("refuses to load a journal that is damaged or from a newer version", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore({ filename }, (store) =>
        Effect.gen(function* () {
          yield* create(store)
          for (const damage of [
            "UPDATE fermata_journal SET version = 99",
            "UPDATE fermata_journal SET version = 1, events = '[{}'",
            `UPDATE fermata_journal SET events = '[{"_tag":"run.exploded","at":1}]'`,
            "UPDATE fermata_journal SET events = '[]'"
          ]) {
            raw(filename, (db) => db.exec(damage))
            const error = yield* Effect.flip(store.load(runId))
            assert.strictEqual(
              error._tag === "RunStoreError" ? error.reason._tag : error._tag,
              "StoreUnreadable"
            )
            assert.isTrue(error.message.includes("run_a"), error.message)
          }
          raw(filename, (db) => db.exec("UPDATE fermata_runs SET status = 'asleep'"))
          // `list` leaves the run out, and `damaged` reports it.
          assert.deepStrictEqual(yield* store.list(), [])
          assert.include(JSON.stringify(yield* store.damaged), "run_a")
        })
      )
    })
  )

  it.effect("waits for a lock that another connection holds, and reads meanwhile", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore({ filename }, (store) =>
        Effect.gen(function* () {
          const lease = yield* create(store)
          const other = new DatabaseSync(filename)
          other.exec("BEGIN IMMEDIATE")
          const append = store.append({ lease, expected: at(1), events: [said("1")], status: "running" })
          const fiber = yield* Effect.forkChild(append, { startImmediately: true })
          yield* TestClock.adjust("1 second")
          assert.strictEqual((yield* store.load(runId)).events.length, 1)
          assert.strictEqual(fiber.pollUnsafe(), undefined)
          other.exec("COMMIT")
          other.close()
          yield* TestClock.adjust("1 second")
          assert.deepStrictEqual(yield* Fiber.join(fiber), { revision: at(2) })
        })
      )
    })
  )

  it.effect("fails with StoreBusy after the deadline, and appends again once the lock is released", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore({ filename, busyDeadline: "2 seconds" }, (store) =>
        Effect.gen(function* () {
          const lease = yield* create(store)
          const other = new DatabaseSync(filename)
          other.exec("BEGIN IMMEDIATE")
          const append = store.append({ lease, expected: at(1), events: [said("1")], status: "running" })
          const fiber = yield* Effect.forkChild(Effect.flip(append), { startImmediately: true })
          yield* TestClock.adjust("3 seconds")
          const error = yield* Fiber.join(fiber)
          assert.strictEqual(error._tag === "RunStoreError" ? error.reason._tag : error._tag, "StoreBusy")
          other.exec("ROLLBACK")
          other.close()
          assert.deepStrictEqual(yield* append, { revision: at(2) })
        })
      )
    })
  )

  it.effect("keeps acknowledged events when the disk is full, and appends again when there is space", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const layer = SqlRunStore.layer.pipe(
        Layer.provideMerge(Layer.effect(SqlClient.SqlClient, SqliteClient.make({ filename }))),
        Layer.provide(Reactivity.layer)
      )
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const store = yield* RunStore.RunStore
        const lease = yield* create(store)
        yield* sql`PRAGMA max_page_count = 240`
        const append = (expected: number) =>
          store.append({ lease, expected: at(expected), events: [said("x".repeat(9000))], status: "running" })
        let revision = 1
        let full = yield* Effect.result(append(revision))
        while (full._tag === "Success") {
          revision = full.success.revision
          full = yield* Effect.result(append(revision))
        }
        assert.isTrue(revision > 5)
        for (let attempt = 0; attempt < 3; attempt += 1) {
          const error = yield* Effect.flip(append(revision))
          assert.strictEqual(error._tag === "RunStoreError" ? error.reason._tag : error._tag, "StorageFull")
        }
        assert.strictEqual((yield* store.load(runId)).events.length, revision)
        assert.strictEqual((yield* store.head(runId)).revision, revision)
        yield* sql`PRAGMA max_page_count = 100000`
        assert.strictEqual((yield* append(revision)).revision, revision + 1)
        assert.strictEqual((yield* store.load(runId)).events.length, revision + 1)
      }).pipe(Effect.provide(layer))
    })
  )

  it.effect("keeps its journal whole when appends are interrupted at any step", () =>
    Effect.gen(function* () {
      yield* withStore({ filename: ":memory:" }, (store) =>
        Effect.gen(function* () {
          const lease = yield* create(store)
          // Interrupts the append after so many operations of its fiber: before, within or after the transaction.
          for (let steps = 8; steps < 200; steps += 1) {
            const { revision } = yield* store.head(runId)
            const append = store.append({ lease, expected: revision, events: [said("1")], status: "running" })
            const fiber = yield* append.pipe(
              Effect.provideService(References.MaxOpsBeforeYield, steps),
              Effect.forkChild({ startImmediately: true })
            )
            yield* Fiber.interrupt(fiber)
          }
          const { revision } = yield* store.head(runId)
          assert.strictEqual((yield* store.load(runId)).events.length, revision)
          yield* store.append({ lease, expected: revision, events: [said("end")], status: "running" })
        })
      )
    })
  )
})

const raw = (filename: string, use: (db: DatabaseSync) => void) => {
  const db = new DatabaseSync(filename)
  use(db)
  db.close()
}

describe("SqliteStore.layerConfig", () => {
  const options = { filename: Config.String("RUNS"), synchronous: Config.succeed("normal" as const) }
  const build = (env: Record<string, string>) =>
    Effect.scoped(Layer.build(Layer.fresh(SqliteStore.layerConfig(options)))).pipe(
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env }))
    )

  it.effect("reads each option from the ConfigProvider, and fails with ConfigError for a missing one", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* build({ RUNS: filename })
      assert.isAbove(readFileSync(filename).length, 0)
      assert.strictEqual((yield* Effect.flip(build({})))._tag, "ConfigError")
    })
  )
})
