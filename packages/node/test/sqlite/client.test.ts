import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Scope from "effect/Scope"
import * as SqliteClient from "../../src/internal/sqlite/client.ts"
import { temporaryFile } from "../temporaryStore.ts"
import { foreign } from "./fixtures.ts"

/** A database with a table of words, and functions that write and read them. */
const opened = Effect.gen(function* () {
  const filename = yield* temporaryFile
  const sql = yield* Effect.provide(SqliteClient.make({ filename }), Reactivity.layer)
  yield* sql`CREATE TABLE words (word text)`
  const say = (word: string) => sql`INSERT INTO words VALUES (${word})`
  const words = Effect.map(sql<{ readonly word: string }>`SELECT word FROM words`, (rows) =>
    rows.map(({ word }) => word)
  )
  return { filename, say, sql, words }
})

describe("the SQLite client", () => {
  it.effect("rolls an interrupted transaction back and gives the connection to the next waiter", () =>
    Effect.gen(function* () {
      const { say, sql, words } = yield* opened
      const begun = yield* Deferred.make<void>()
      const writing = say("lost").pipe(
        Effect.andThen(Deferred.succeed(begun, undefined)),
        Effect.andThen(Effect.never),
        sql.withTransaction
      )
      const writer = yield* Effect.forkChild(writing)
      yield* Deferred.await(begun)
      const impatient = yield* Effect.forkChild(say("never"), { startImmediately: true })
      const patient = yield* Effect.forkChild(sql.withTransaction(say("kept")), { startImmediately: true })
      yield* Fiber.interrupt(impatient)
      yield* Fiber.interrupt(writer)
      yield* Fiber.join(patient)
      assert.deepStrictEqual(yield* words, ["kept"])
    })
  )

  it.effect("rolls back only the inner of two nested transactions when that one fails", () =>
    Effect.gen(function* () {
      const { say, sql, words } = yield* opened
      const inner = sql.withTransaction(Effect.andThen(say("inner"), Effect.fail("no")))
      yield* sql.withTransaction(Effect.all([say("before"), Effect.ignore(inner), say("after")]))
      assert.deepStrictEqual(yield* words, ["before", "after"])
    })
  )

  it.effect(
    "works on after statements that cannot be prepared or bound, and reads large integers as bigint",
    () =>
      Effect.gen(function* () {
        const { filename, say, sql, words } = yield* opened
        yield* say("one")
        // An integer beyond the safe range of JavaScript, which is read as a bigint.
        foreign(filename, (database) =>
          database.exec("CREATE TABLE large AS SELECT 9007199254740993 AS size")
        )
        const large = sql`SELECT size FROM large`
        const failing = [sql.unsafe(""), sql.unsafe("SELEC"), sql`SELECT ${undefined as never}`]
        for (const statement of failing) assert.isTrue(Exit.isFailure(yield* Effect.exit(statement)))
        assert.deepStrictEqual(
          (yield* large).map((row) => ({ ...row })),
          [{ size: 9007199254740993n }]
        )
        foreign(filename, (database) =>
          database.exec("UPDATE large SET size = 1; ALTER TABLE large ADD COLUMN name text")
        )
        assert.deepStrictEqual(yield* large.values, [[1]])
        assert.deepStrictEqual(
          (yield* large).map((row) => ({ ...row })),
          [{ size: 1 }]
        )
        assert.deepStrictEqual(yield* words, ["one"])
      })
  )

  it.effect("prepares a statement again that its cache has dropped", () =>
    Effect.gen(function* () {
      const { say, sql, words } = yield* opened
      yield* say("one")
      for (let length = 1; length <= 300; length += 1) {
        const some = Array.from({ length }, (_, index) => (index === 0 ? "one" : `${index}`))
        const found = yield* sql`SELECT word FROM words WHERE ${sql.in("word", some)}`
        assert.strictEqual(found.length, 1)
      }
      yield* say("two")
      assert.deepStrictEqual(yield* words, ["one", "two"])
    })
  )

  it.effect("fails the statements that wait when it is closed", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { say, sql } = yield* Scope.provide(opened, scope)
      const begun = yield* Deferred.make<void>()
      const closed = yield* Deferred.make<void>()
      const writer = yield* say("lost").pipe(
        Effect.andThen(Deferred.succeed(begun, undefined)),
        Effect.andThen(Deferred.await(closed)),
        sql.withTransaction,
        Effect.forkChild
      )
      yield* Deferred.await(begun)
      const waiting = yield* Effect.forkChild(Effect.asVoid(say("late")), { startImmediately: true })
      yield* Scope.close(scope, Exit.void)
      yield* Deferred.succeed(closed, undefined)
      for (const fiber of [writer, waiting]) assert.isTrue(Exit.isFailure(yield* Fiber.await(fiber)))
    })
  )
})
