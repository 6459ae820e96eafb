import { assert, describe, it } from "@effect/vitest"
import { Id } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import * as SqliteClient from "../../src/internal/sqlite/client.ts"
import { changesOf, versionOf } from "../../src/internal/sqlite/watch.ts"
import { temporaryFile } from "../temporaryStore.ts"
import { asked, foreign, run, started, withStore } from "./fixtures.ts"

/** A file with a table, a client that polls it, and a `write` over another connection. */
const file = Effect.gen(function* () {
  const filename = yield* temporaryFile
  foreign(filename, (database) => database.exec("PRAGMA journal_mode = WAL; CREATE TABLE t (x)"))
  const sql = yield* SqliteClient.make({ filename })
  const write = () => foreign(filename, (database) => database.exec("INSERT INTO t VALUES (1)"))
  return { filename, sql, write }
})

const listen = Effect.fnUntraced(function* (changes: Stream.Stream<void>) {
  const heard = yield* Queue.unbounded<void>()
  const fiber = yield* Effect.forkChild(
    Stream.runForEach(changes, () => Queue.offer(heard, undefined)),
    { startImmediately: true }
  )
  return { heard, fiber }
})

/** Time for a poll. A poll is done when the next statement on the same connection is. */
const later = Effect.andThen(TestClock.adjust("40 millis"), Effect.yieldNow)

describe("the changes of a SQLite store", () => {
  it.effect("emit to every subscriber after a commit of another connection, and after nothing else", () =>
    Effect.gen(function* () {
      const { sql, write } = yield* file
      const changes = yield* changesOf(versionOf(sql))
      const one = yield* listen(changes)
      const two = yield* listen(changes)
      yield* later
      yield* sql`INSERT INTO t VALUES (2)`
      yield* later
      assert.strictEqual(yield* Queue.size(one.heard), 0)
      for (let round = 1; round <= 3; round += 1) {
        write()
        yield* later
        yield* Queue.take(one.heard)
        yield* Queue.take(two.heard)
      }
      yield* later
      assert.strictEqual(yield* Queue.size(one.heard), 0)
    }).pipe(Effect.provide(Reactivity.layer))
  )

  it.effect("emit for a commit before the first poll", () =>
    Effect.gen(function* () {
      const { sql, write } = yield* file
      const changes = yield* changesOf(versionOf(sql))
      write()
      const { heard } = yield* listen(changes)
      yield* Queue.take(heard)
    }).pipe(Effect.provide(Reactivity.layer))
  )

  it.effect("are polled once for all subscribers, and not at all without a subscriber", () =>
    Effect.gen(function* () {
      let looks = 0
      const changes = yield* changesOf(Effect.sync(() => (looks += 1)))
      const whileLooking = Effect.fnUntraced(function* (...listeners: ReadonlyArray<Queue.Queue<void>>) {
        const before = looks
        for (let round = 0; round < 5; round += 1) {
          yield* TestClock.adjust("40 millis")
          for (const heard of listeners) yield* Queue.take(heard)
        }
        return looks - before
      })
      yield* whileLooking()
      assert.strictEqual(looks, 1)
      const one = yield* listen(changes)
      yield* Queue.take(one.heard)
      const two = yield* listen(changes)
      yield* Queue.take(two.heard)
      assert.strictEqual(yield* whileLooking(one.heard, two.heard), 5)
      yield* Fiber.interrupt(one.fiber)
      assert.strictEqual(yield* whileLooking(two.heard), 5)
      yield* Fiber.interrupt(two.fiber)
      assert.strictEqual(yield* whileLooking(), 0)
    })
  )

  it.live("reach a store from another store on the same file", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, (store) =>
        withStore(filename, (other) =>
          Effect.gen(function* () {
            yield* other.release(yield* started(other, run(1), asked(run(1), "?")))
            const { heard } = yield* listen(store.changes)
            // A subscription begins with an emission, for commits before it.
            yield* Queue.take(heard)
            yield* other.decide({
              _tag: "answer",
              requestId: Id.requestId(run(1), 1),
              by: "me",
              answer: "yes"
            })
            yield* Queue.take(heard)
          })
        )
      )
    })
  )
})
