import { existsSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import { Id } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { readLive } from "../locks.ts"
import { temporaryFile } from "../temporaryStore.ts"
import { asked, foreign, run, said, started, type Store, withStore } from "./fixtures.ts"

const secret = "the-canary-sings"

/** How often the secret occurs in the files on the disk. */
const traces = (filename: string): number =>
  ["", "-wal", "-journal"]
    .map((suffix) => `${filename}${suffix}`)
    .filter((path) => existsSync(path))
    .reduce((sum, path) => sum + readLive(path).split(secret).length - 1, 0)

/** Runs that grow side by side, with texts of all sizes; only the seventh contains the secret. */
const sideBySide = Effect.fnUntraced(function* (store: Store) {
  const text = (index: number, round: number) =>
    `${index === 7 ? secret : "ordinary"} ${"x".repeat((index * 7919 + round * 104_729) % (round % 5 === 0 ? 9000 : 400))}`
  const leases = []
  for (let index = 0; index < 20; index += 1) {
    leases.push(yield* started(store, run(index), asked(run(index), text(index, 0))))
  }
  for (let round = 1; round <= 30; round += 1) {
    for (const [index, lease] of leases.entries()) {
      const { revision } = yield* store.head(lease.runId)
      yield* store.append({ lease, expected: revision, events: [said(text(index, round))], status: "held" })
    }
  }
  for (const lease of leases) yield* store.release(lease)
})

describe("SqliteStore, when a run is removed", () => {
  it.effect("leaves none of its text in the files, and all of the other runs", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          yield* sideBySide(store)
          assert.isAbove(traces(filename), 30)
          yield* store.remove(run(7))
          assert.strictEqual(traces(filename), 0)
          assert.strictEqual((yield* store.list()).length, 19)
          assert.strictEqual((yield* store.load(run(6))).events.length, 33)
        })
      )
    })
  )

  it.effect("removes the run while another connection reads, and its text when that reader ends", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          yield* sideBySide(store)
          const reader = foreign(filename, (database) => database)
          reader.open()
          reader.exec("BEGIN; SELECT count(*) FROM fermata_runs")
          yield* store.remove(run(7))
          assert.strictEqual((yield* Effect.flip(store.head(run(7))))._tag, "RunNotFound")
          assert.isAbove(traces(filename), 0)
          reader.close()
        })
      )
      assert.strictEqual(traces(filename), 0)
    })
  )

  it.effect("leaves no trace in the unused space of pages once the store is compacted", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          // An answer makes a row longer, so that SQLite moves rows from page to page. With these lengths SQLite 3.53 leaves the
          // text twice.
          const text = (index: number, most: number) =>
            `${index === 7 ? secret : "ordinary"} ${"x".repeat((index * 7919 + 7598) % most)}`
          for (let index = 0; index < 20; index += 1) {
            yield* store.release(yield* started(store, run(index), asked(run(index), text(index, 900))))
          }
          for (let index = 0; index < 20; index += 1) {
            const requestId = Id.requestId(run(index), 1)
            yield* store.decide({ _tag: "answer", requestId, by: "me", answer: text(index, 700) })
          }
          yield* store.remove(run(7))
          yield* SqliteStore.compact({ filename })
          assert.strictEqual(traces(filename), 0)
          assert.strictEqual((yield* store.load(run(6))).decisions.length, 1)
        })
      )
      assert.deepStrictEqual((yield* SqliteStore.check({ filename })).problems, [])
    })
  )
})
