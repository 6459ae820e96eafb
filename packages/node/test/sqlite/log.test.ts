import { statSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as SqliteClient from "../../src/internal/sqlite/client.ts"
import { emptyLog, watchLog } from "../../src/internal/sqlite/watch.ts"
import { temporaryFile } from "../temporaryStore.ts"
import { foreign, run, said, started, withStore, withWarnings } from "./fixtures.ts"

const logSize = (filename: string) => statSync(`${filename}-wal`).size

/** A connection that reads the current state until it is closed. */
const pinnedReader = (filename: string) => {
  const reader = foreign(filename, (database) => database)
  reader.open()
  reader.exec("BEGIN; SELECT count(*) FROM fermata_runs")
  return reader
}

/** Polls until a condition on the files holds; the test's timeout bounds it. */
const until = (holds: () => boolean) =>
  Effect.repeat(
    Effect.promise(() => new Promise((resolve) => setImmediate(resolve))),
    { while: () => !holds() }
  )

describe("the log of a SQLite store", () => {
  it.effect("stays below 8 MB while 15 MB are written", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          const lease = yield* started(store, run(1))
          let revision = (yield* store.head(run(1))).revision
          let largest = 0
          for (let index = 0; index < 150; index += 1) {
            const events = [said("x".repeat(100_000))] as const
            revision = (yield* store.append({ lease, expected: revision, events, status: "held" })).revision
            if (index % 10 === 0) yield* store.events(run(1), { from: revision - 1 })
            largest = Math.max(largest, logSize(filename))
          }
          // 15 MB were written; SQLite starts over after 4 MB.
          assert.isBelow(largest, 8 * 1024 * 1024)
        })
      )
    })
  )

  it.effect("causes one warning when a pinned reader lets it grow, and shrinks when the reader ends", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const limit = 200_000
      const warned = yield* Deferred.make<void>()
      const heard = Logger.make(({ logLevel }) => {
        if (logLevel === "Warn") Deferred.doneUnsafe(warned, Effect.void)
      })
      const watched = withStore(filename, (store) =>
        Effect.gen(function* () {
          const sql = yield* SqliteClient.make({ filename })
          const lease = yield* started(store, run(1))
          let revision = (yield* store.head(run(1))).revision
          const grow = Effect.gen(function* () {
            while (logSize(filename) <= 2 * limit) {
              const events = [said("x".repeat(10_000))] as const
              revision = (yield* store.append({ lease, expected: revision, events, status: "held" })).revision
            }
          })
          const reader = pinnedReader(filename)
          yield* grow
          let looks = 0
          yield* watchLog({
            sql: Object.assign(Object.create(sql) as typeof sql, {
              reserve: Effect.tap(sql.reserve, () => Effect.sync(() => (looks += 1)))
            }),
            filename,
            limit,
            everyMs: 5
          })
          yield* Deferred.await(warned)
          const before = looks
          yield* until(() => looks > before + 3)
          // Reads and writes work meanwhile.
          yield* store.append({ lease, expected: revision, events: [said("still here")], status: "held" })
          reader.close()
          yield* until(() => logSize(filename) === 0)
          assert.strictEqual((yield* store.head(run(1))).revision, revision + 1)
        })
      ).pipe(Effect.provide(Logger.layer([heard], { mergeWithExisting: true })), Effect.scoped)
      const { warnings } = yield* withWarnings(watched)
      assert.strictEqual(warnings.length, 1)
      assert.include(warnings[0], "Look for a database tool or a script with an open transaction")
    }).pipe(Effect.provide(Reactivity.layer))
  )

  it.effect("is emptied after a flush as soon as the pinned reader ends", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          const sql = yield* SqliteClient.make({ filename })
          yield* started(store, run(1))
          const { flush } = yield* watchLog({ sql, filename, everyMs: 5 })
          const reader = pinnedReader(filename)
          yield* started(store, run(2))
          yield* flush
          assert.isAbove(logSize(filename), 0)
          assert.isFalse(yield* emptyLog(sql))
          reader.close()
          yield* until(() => logSize(filename) === 0)
        })
      ).pipe(Effect.scoped)
    }).pipe(Effect.provide(Reactivity.layer))
  )
})
