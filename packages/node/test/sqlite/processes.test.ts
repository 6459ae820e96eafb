import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { temporaryFile } from "../temporaryStore.ts"
import { foreign, run, said, started, withStore } from "./fixtures.ts"
import { writer } from "./writers.ts"

describe("SqliteStore beside other processes", () => {
  it.live(
    "loses none of 2,000 transactions of four processes, and fails none of them as busy",
    () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        const writers = yield* Effect.forEach(
          ["a", "b", "c", "d"],
          (name) => writer(filename, name, "count"),
          {
            concurrency: 4
          }
        )
        for (const { go } of writers) yield* go
        const outcomes = yield* Effect.forEach(writers, ({ json }) => json)
        if (process.env["FERMATA_VERBOSE"] !== undefined) console.log(outcomes)
        for (const { busy, revision } of outcomes)
          assert.deepStrictEqual({ busy, revision }, { busy: 0, revision: 500 })
        yield* withStore(filename, (store) =>
          Effect.gen(function* () {
            for (const name of ["a", "b", "c", "d"]) {
              const { events, head } = yield* store.load(run(name))
              assert.strictEqual(head.revision, 500)
              assert.deepStrictEqual(
                events.slice(1),
                Array.from({ length: 499 }, (_, index) => said(`${index + 1}`))
              )
            }
          })
        )
      }),
    300_000
  )

  it.effect("stops waiting for a lock when it is interrupted, and writes when the lock is free", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          const lease = yield* started(store, run(1))
          const { revision } = yield* store.head(run(1))
          const append = store.append({ lease, expected: revision, events: [said("1")], status: "running" })
          const other = foreign(filename, (database) => database)
          other.open()
          other.exec("BEGIN IMMEDIATE")
          const waiting = yield* Effect.forkChild(append, { startImmediately: true })
          yield* Fiber.interrupt(waiting)
          // A read needs no lock.
          assert.strictEqual((yield* store.head(run(1))).revision, revision)
          other.exec("ROLLBACK")
          other.close()
          assert.strictEqual((yield* append).revision, revision + 1)
        })
      )
    })
  )
})
