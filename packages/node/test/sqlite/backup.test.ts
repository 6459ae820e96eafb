import { existsSync, readdirSync, readFileSync, statSync, writeFileSync, chmodSync } from "node:fs"
import { dirname, join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { temporaryDirectory, temporaryFile } from "../temporaryStore.ts"
import { run, said, showing, started, withStore } from "./fixtures.ts"
import { writer } from "./writers.ts"

describe("SqliteStore.backup", () => {
  it.live("copies the contents to which runs refer, and restores them", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const directory = yield* temporaryDirectory
      const [backup, restored] = ["backup.db", "restored.db"].map((name) => join(directory, name))
      const ref = yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          const ref = yield* store.blobs!.put(Stream.make(new Uint8Array(600_000).fill(7)))
          yield* started(store, run(1), showing(ref))
          return ref
        })
      )
      yield* SqliteStore.backup({ filename, to: backup! })
      yield* SqliteStore.restore({ from: backup!, to: restored! })
      for (const copy of [backup!, restored!])
        assert.deepStrictEqual((yield* SqliteStore.check({ filename: copy })).problems, [])
      const pieces = yield* withStore(restored!, ({ blobs }) => Stream.runCollect(blobs!.read(ref.sha256)))
      assert.strictEqual(Buffer.concat(pieces).length, ref.bytes)
    })
  )

  it.live(
    "copies a sound store while two processes write, without blocking this process",
    () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        const directory = yield* temporaryDirectory
        // Large enough that a copy takes a while.
        yield* withStore(filename, (store) =>
          Effect.gen(function* () {
            const lease = yield* started(store, run("large"))
            let revision = (yield* store.head(run("large"))).revision
            for (let index = 0; index < 60; index += 1) {
              const events = [said("x".repeat(1_000_000))] as const
              revision = (yield* store.append({ lease, expected: revision, events, status: "held" })).revision
            }
          })
        )
        const writers = yield* Effect.forEach(["a", "b"], (name) => writer(filename, name, "steady"), {
          concurrency: 2
        })
        for (const { go, line } of writers) yield* Effect.andThen(go, line)
        for (let round = 1; round <= 3; round += 1) {
          const to = join(directory, `${round}.db`)
          let turns = 0
          const pulse = setInterval(() => (turns += 1), 1)
          const before = performance.now()
          yield* SqliteStore.backup({ filename, to })
          clearInterval(pulse)
          if (process.env["FERMATA_VERBOSE"] !== undefined) {
            console.log({ ms: Math.round(performance.now() - before), turns, mb: statSync(to).size >> 20 })
          }
          assert.isAbove(turns, 5)
        }
        for (const { go } of writers) yield* go
        const written = yield* Effect.forEach(writers, ({ json }) => json)
        for (const { revision } of written) assert.isAbove(Number(revision), 0)
        let last = 0
        for (let round = 1; round <= 3; round += 1) {
          const copy = join(directory, `${round}.db`)
          const { events, problems, runs } = yield* SqliteStore.check({ filename: copy })
          assert.deepStrictEqual({ problems, runs }, { problems: [], runs: 3 })
          assert.isAtLeast(events, last)
          last = events
          // The copy holds the first events of the run.
          const { events: begin } = yield* withStore(copy, (store) => store.load(run("a")))
          const { events: whole } = yield* withStore(filename, (store) => store.load(run("a")))
          assert.deepStrictEqual(begin, whole.slice(0, begin.length))
        }
        assert.deepStrictEqual(readdirSync(directory).toSorted(), ["1.db", "2.db", "3.db"])
      }),
    300_000
  )

  it.effect("never replaces a file", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, (store) => started(store, run(1)))
      const to = `${filename}.copy`
      writeFileSync(to, "precious")
      assert.strictEqual((yield* Effect.flip(SqliteStore.backup({ filename, to })))._tag, "BackupExists")
      assert.strictEqual(
        (yield* Effect.flip(SqliteStore.backup({ filename, to: filename })))._tag,
        "BackupExists"
      )
      assert.strictEqual(readFileSync(to, "utf8"), "precious")
      assert.deepStrictEqual(readdirSync(dirname(filename)).toSorted(), ["runs.db", "runs.db.copy"])
    })
  )

  it.effect("gives the copy the mode of the store's file", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, (store) => started(store, run(1)))
      chmodSync(filename, 0o600)
      yield* SqliteStore.backup({ filename, to: `${filename}.copy` })
      assert.strictEqual(statSync(`${filename}.copy`).mode & 0o777, 0o600)
    })
  )

  it.effect("fails with the reason and leaves no file when there is no store or no folder", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const to = `${filename}.copy`
      const missing = yield* Effect.flip(SqliteStore.backup({ filename, to }))
      assert.strictEqual(
        missing.message,
        "The store cannot be opened: there is no such file. Check its name."
      )
      yield* withStore(filename, (store) => started(store, run(1)))
      const folder = yield* Effect.flip(
        SqliteStore.backup({ filename, to: join(dirname(filename), "none", "copy") })
      )
      assert.strictEqual(
        folder.message,
        "The store cannot be opened: the folder of the new file does not exist or cannot be written."
      )
      const inFile = yield* Effect.flip(SqliteStore.backup({ filename, to: join(filename, "copy") }))
      assert.strictEqual(inFile.message, folder.message)
      writeFileSync(filename, "Dear diary, ".repeat(1000))
      const diary = yield* Effect.flip(SqliteStore.backup({ filename, to }))
      assert.include(diary.message, "not a database")
      assert.isFalse(existsSync(to))
      assert.deepStrictEqual(readdirSync(dirname(filename)), ["runs.db"])
    })
  )
})
