import { readFileSync, statSync } from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import { SqlRunStore } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqliteClient from "../../src/internal/sqlite/client.ts"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { temporaryFile } from "../temporaryStore.ts"
import { driver } from "./effectsDriver.ts"
import { run, said, started, withStore } from "./fixtures.ts"

const onFile = <A>(filename: string, use: (database: DatabaseSync) => A): A => {
  const database = new DatabaseSync(filename)
  try {
    return use(database)
  } finally {
    database.close()
  }
}

/** The bytes of a page in a file that has tables. */
const pageOf = (filename: string): unknown =>
  onFile(filename, (database) => {
    assert.isDefined(database.prepare("SELECT 1 FROM sqlite_schema").get())
    return database.prepare("PRAGMA page_size").get()?.["page_size"]
  })

/** A file with the tables of an earlier version, and SQLite's own page size. */
const oldFile = Effect.map(temporaryFile, (filename) => {
  const tables = readFileSync(join(import.meta.dirname, "../fixtures/stores/tables-6.sql"), "utf8")
  onFile(filename, (database) => database.exec(tables))
  return filename
})

const opened = (filename: string) => withStore(filename, (store) => store.list())

/** The setting of a connection after a store was opened over its client. */
const settings = (filename: string, before = "") =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    if (before !== "") yield* sql.unsafe(before)
    yield* SqlRunStore.make()
    const rows = yield* Effect.all(
      ["page_size", "journal_mode", "wal_autocheckpoint"].map((name) => sql.unsafe<object>(`PRAGMA ${name}`))
    )
    return rows.map(([row]) => Object.values(row ?? {})[0] as unknown)
  })

const clients = {
  "the default client": (filename: string) =>
    Layer.effect(SqlClient.SqlClient, SqliteClient.make({ filename })),
  "Effect's driver": (filename: string) => driver.layer({ filename })
}

const over =
  (client: (filename: string) => Layer.Layer<SqlClient.SqlClient, never, Reactivity.Reactivity>) =>
  (filename: string, before?: string) =>
    settings(filename, before).pipe(
      Effect.provide(Layer.fresh(Layer.provide(client(filename), Reactivity.layer)))
    )

describe.each(Object.entries(clients))("over %s, a SQLite file", (name, client) => {
  const settingsOf = over(client)

  it.effect("gets pages of 1,024 bytes, and is checkpointed after 4 MB", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      assert.deepStrictEqual(yield* settingsOf(filename), [1024, "wal", 4000])
      assert.deepStrictEqual(yield* settingsOf(filename), [1024, "wal", 4000])
    })
  )

  it.effect("of an earlier version keeps its pages and the interval of its checkpoints", () =>
    Effect.gen(function* () {
      const filename = yield* oldFile
      assert.deepStrictEqual(yield* settingsOf(filename), [4096, "wal", 1000])
      assert.deepStrictEqual(yield* settingsOf(filename), [4096, "wal", 1000])
    })
  )

  it.effect("keeps the interval of checkpoints that the program has set", () =>
    Effect.gen(function* () {
      const found = yield* settingsOf(yield* temporaryFile, "PRAGMA wal_autocheckpoint = 50")
      assert.deepStrictEqual(found, [1024, "wal", 50])
    })
  )

  it.effect("in memory needs no log", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* settingsOf(":memory:"))[1], "memory")
    })
  )
})

describe("over Effect's driver, a SQLite file", () => {
  const settingsOf = over(clients["Effect's driver"])

  it.effect("with tables of the program keeps its pages", () =>
    Effect.gen(function* () {
      const found = yield* settingsOf(yield* temporaryFile, "CREATE TABLE orders (id text)")
      assert.deepStrictEqual(found, [4096, "wal", 1000])
    })
  )

  it.effect("of a size that the program has chosen keeps it", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      onFile(filename, (database) => database.exec("PRAGMA page_size = 8192; PRAGMA journal_mode = WAL"))
      assert.deepStrictEqual(yield* settingsOf(filename), [8192, "wal", 1000])
    })
  )

  for (const [does, before, pages] of [
    ["has read keeps its pages", "PRAGMA journal_mode = WAL; SELECT 1 FROM sqlite_schema", 4096],
    ["has made gets small pages", "PRAGMA journal_mode = WAL", 1024]
  ] as const) {
    it.effect(`that another connection ${does}, and both can use it`, () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        const other = new DatabaseSync(filename)
        for (const statement of before.split(";")) other.prepare(statement).all()
        const [page, mode] = yield* settingsOf(filename)
        assert.deepStrictEqual([page, mode], [pages, "wal"])
        other.exec("CREATE TABLE orders (id text); INSERT INTO orders VALUES ('first')")
        assert.isDefined(other.prepare("SELECT 1 FROM fermata_schema").get())
        yield* opened(filename)
        other.close()
        assert.isTrue((yield* SqliteStore.check({ filename })).ok)
      })
    )
  }
})

describe("the pages of a SQLite store", () => {
  for (const [bytes, file] of [
    [1024, Effect.tap(temporaryFile, opened)],
    [4096, Effect.tap(oldFile, opened)]
  ] as const) {
    it.effect(`of ${bytes} bytes stay when it is compacted, backed up and restored`, () =>
      Effect.gen(function* () {
        const filename = yield* file
        assert.strictEqual(pageOf(filename), bytes)
        yield* SqliteStore.compact({ filename })
        assert.strictEqual(pageOf(filename), bytes)
        // VACUUM could change the size of pages here.
        onFile(filename, (database) => database.exec("PRAGMA journal_mode = DELETE"))
        yield* SqliteStore.compact({ filename })
        assert.strictEqual(pageOf(filename), bytes)
        yield* opened(filename)
        const to = join(dirname(filename), "backup.db")
        yield* SqliteStore.backup({ filename, to })
        const restored = join(dirname(filename), "restored.db")
        yield* SqliteStore.restore({ from: to, to: restored })
        yield* opened(restored)
        assert.deepStrictEqual([filename, to, restored].map(pageOf), [bytes, bytes, bytes])
      })
    )
  }

  it.effect("are copied into the file after 4 MB of log", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const largest = yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          const lease = yield* started(store, run(1))
          let { revision } = yield* store.head(run(1))
          let largest = 0
          for (let index = 0; index < 120; index += 1) {
            const events = [said("x".repeat(50_000))] as const
            revision = (yield* store.append({ lease, expected: revision, events, status: "held" })).revision
            largest = Math.max(largest, statSync(`${filename}-wal`).size)
          }
          return largest
        })
      )
      assert.isAbove(largest, 3_900_000)
      assert.isBelow(largest, 4_500_000)
    })
  )
})
