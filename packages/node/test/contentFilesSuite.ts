/**
 * Tests of a store with a directory of contents. They run on SQLite and Postgres.
 */
import * as Fs from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import type { Blob } from "@fermata/sdk"
import { type BlobPort, RunStore, type RunStoreError, SqlRunStore } from "@fermata/sdk/store"
import { FaultySqlClient } from "@fermata/sdk/testing"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import { openDirectory } from "../src/internal/contentFiles.ts"
import { run, showing, started, type Store } from "./sqlite/fixtures.ts"
import { temporaryDirectory } from "./temporaryStore.ts"

/** A database that stores with any directory, or without one, are opened in. */
export interface Filed {
  readonly layer: (contents?: string) => Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError>
  readonly client: Layer.Layer<SqlClient.SqlClient, unknown>
}

/** The files of contents in a directory. */
const filesIn = (directory: string): ReadonlyArray<string> =>
  Fs.readdirSync(directory, { recursive: true, encoding: "utf8" }).filter((name) =>
    /[0-9a-f]{12}$/.test(name)
  )

const photo = new Uint8Array(1_100_000).fill(7)
const small = new Uint8Array(1000).fill(8)
const put = (blobs: BlobPort.BlobPort, content: Uint8Array) => blobs.put(Stream.make(content))
const lengthOf = (blobs: BlobPort.BlobPort, { sha256 }: Blob.BlobRef) =>
  Stream.runFold(
    blobs.read(sha256),
    () => 0,
    (count, piece) => count + piece.length
  )
const usedBy = (store: Store, name: string, ref: Blob.BlobRef) =>
  Effect.flatMap(started(store, run(name), showing(ref)), store.release)
const always = { storedBefore: Number.MAX_SAFE_INTEGER }

export const contentFilesTests = (name: string, database: Effect.Effect<Filed, unknown, Scope.Scope>): void =>
  void describe(`a directory of contents (${name})`, () => {
    const opened = (layer: Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError>) =>
      Effect.map(Layer.build(Layer.fresh(layer)), Context.get(RunStore.RunStore))

    const test = (
      title: string,
      body: (given: Filed, directory: string) => Effect.fn.Return<unknown, unknown, Scope.Scope>
    ) =>
      it.live(title, () =>
        Effect.scoped(
          Effect.gen(function* () {
            const given = yield* database
            const directory = yield* temporaryDirectory
            yield* Effect.gen(() => body(given, directory))
          })
        )
      )

    test("has the bytes of large contents, each once, until the last run is removed", function* (given, directory) {
      const store = yield* opened(given.layer(directory))
      const blobs = store.blobs!
      const ref = yield* put(blobs, photo)
      assert.deepStrictEqual(yield* put(blobs, photo), ref)
      const others = yield* blobs.putAll([small, photo, large, large])
      assert.deepStrictEqual(others[1], ref)
      assert.strictEqual(filesIn(directory).length, 2)
      yield* usedBy(store, "one", ref)
      yield* usedBy(store, "two", ref)
      yield* blobs.sweep(always)
      assert.strictEqual(filesIn(directory).length, 1)
      yield* store.remove(run("one"))
      assert.strictEqual(yield* lengthOf(blobs, ref), photo.length)
      const part = Stream.runCollect(blobs.read(ref.sha256, { from: 300_000, length: 5 }))
      assert.deepStrictEqual(yield* part, [photo.slice(0, 5)])
      assert.deepStrictEqual(yield* Stream.runCollect(blobs.damaged), [])
      yield* store.remove(run("two"))
      yield* store.prune({ endedBefore: 0 })
      yield* blobs.sweep(always)
      assert.deepStrictEqual(filesIn(directory), [])
      assert.deepStrictEqual(yield* rowsOf(given), [])
    })

    test("keeps nothing of a content that could not be stored", function* (given, directory) {
      const { blobs } = yield* opened(given.layer(directory))
      const broken = Stream.concat(Stream.make(photo), Stream.fail("broken"))
      assert.strictEqual(yield* Effect.flip(blobs!.put(broken)), "broken")
      assert.deepStrictEqual(filesIn(directory), [])
      assert.deepStrictEqual(yield* rowsOf(given), [])
    })

    test("belongs to one store, and is not exchanged", function* (given, directory) {
      const detailOf = (layer: ReturnType<Filed["layer"]>) =>
        Effect.map(Effect.flip(opened(layer)), ({ reason }) =>
          reason._tag === "CannotOpen" ? reason.detail : reason._tag
        )
      const missing = `${directory}/missing`
      assert.include(yield* detailOf(given.layer(missing)), "does not exist")
      Fs.writeFileSync(`${directory}/notes.txt`, "")
      assert.include(yield* detailOf(given.layer(directory)), "has other files")
      Fs.rmSync(`${directory}/notes.txt`)
      const one = yield* opened(given.layer(directory))
      const two = yield* opened(given.layer(directory))
      yield* put(one.blobs!, photo)
      assert.strictEqual((yield* put(two.blobs!, photo)).bytes, photo.length)
      const empty = yield* temporaryDirectory
      assert.include(yield* detailOf(given.layer(empty)), "has none of its contents")
      const other = yield* database
      assert.include(yield* detailOf(other.layer(directory)), "belongs to another store")
    })

    test("is not needed to open its store and to remove runs, and is needed to read contents", function* (given, directory) {
      const store = yield* opened(given.layer(directory))
      const ref = yield* put(store.blobs!, photo)
      yield* usedBy(store, "one", ref)
      const without = yield* opened(given.layer())
      const { reason } = yield* Effect.flip(lengthOf(without.blobs!, ref))
      assert.include(reason.message, "open the store with it")
      yield* without.remove(run("one"))
      assert.strictEqual(filesIn(directory).length, 1)
      yield* store.prune({ endedBefore: 0 })
      assert.deepStrictEqual(filesIn(directory), [])
      assert.deepStrictEqual(yield* rowsOf(given), [])
    })

    test("is named as the reason when one of its files is missing or changed", function* (given, directory) {
      const store = yield* opened(given.layer(directory))
      const [missing, changed] = [yield* put(store.blobs!, photo), yield* put(store.blobs!, large)]
      yield* usedBy(store, "missing", missing)
      yield* usedBy(store, "changed", changed)
      for (const name of filesIn(directory)) {
        const path = `${directory}/${name}`
        if (Fs.statSync(path).size === photo.length) Fs.rmSync(path)
        else Fs.writeFileSync(path, new Uint8Array(large.length))
      }
      const found = yield* Stream.runCollect(store.blobs!.damaged)
      assert.deepStrictEqual(
        found.map(({ problem, sha256 }) => [problem, sha256]).toSorted(),
        [
          ["changed", missing.sha256],
          ["changed", changed.sha256]
        ].toSorted()
      )
    })

    test("gets no file in a transaction of the caller, which may roll back", function* (given, directory) {
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { blobs } = yield* SqlRunStore.make({ files: openDirectory(directory) })
        const putting = Effect.andThen(put(blobs!, photo), blobs!.putAll([large]))
        yield* Effect.flip(sql.withTransaction(Effect.andThen(putting, Effect.fail("rolled back"))))
        assert.deepStrictEqual([filesIn(directory), yield* rowsOf(given)], [[], []])
        const [ref] = yield* sql.withTransaction(putting)
        assert.deepStrictEqual(filesIn(directory), [])
        assert.strictEqual(yield* lengthOf(blobs!, ref!), large.length)
      }).pipe(Effect.provide(Layer.fresh(given.client)))
    })

    test("has no file without a content, and each content its file, after a process died or lost its connection anywhere", function* (given, directory) {
      /** Stores a content, refers to it, and removes the run, in a process that is hit at one of its statements or operations on files. */
      const story = Effect.fnUntraced(
        function* ({ at, fault, inFiles }: Place) {
          let operations = 0
          const statements: Array<string> = []
          const scope = yield* Scope.make()
          const client = yield* Scope.provide(Layer.build(Layer.fresh(given.client)), scope)
          const faulty = FaultySqlClient.make(Context.get(client, SqlClient.SqlClient), ({ sql }) =>
            operations === -1 || statements.push(sql) !== at || inFiles ? "pass" : fault
          )
          const hit = <A, E>(operation: Effect.Effect<A, E>): Effect.Effect<A, E> =>
            Effect.suspend(() => {
              operations += 1
              const isHit = inFiles && operations === at
              if (isHit && fault === "crashBefore") faulty.crash()
              if (faulty.crashed()) return Effect.die(new FaultySqlClient.SimulatedCrash())
              return Effect.tap(operation, () => {
                if (isHit) faulty.crash()
                return faulty.crashed() ? Effect.die(new FaultySqlClient.SimulatedCrash()) : Effect.void
              })
            })
          const files = (filed: SqlRunStore.FiledStore) =>
            Effect.map(
              openDirectory(directory)(filed),
              ({ read, remove, sync, write }): BlobPort.BlobFiles => ({
                read: (...asked) => hit(read(...asked)),
                remove: (file) => hit(remove(file)),
                sync: (file) => hit(sync(file)),
                write: (...asked) => hit(write(...asked))
              })
            )
          const exit = yield* Effect.gen(function* () {
            operations = -1
            const store = yield* SqlRunStore.make({ files })
            operations = 0
            const ref = yield* put(store.blobs!, photo)
            yield* usedBy(store, "one", ref)
            const read = yield* lengthOf(store.blobs!, ref)
            yield* store.remove(run("one"))
            return read
          }).pipe(Effect.provideService(SqlClient.SqlClient, faulty.client), Effect.exit)
          yield* Scope.close(scope, exit)
          return { exit, operations, statements }
        },
        Effect.provide(Logger.layer([]))
      )

      const store = yield* opened(given.layer(directory))
      const calm = yield* story({ at: 0, fault: "pass", inFiles: false })
      assert.deepStrictEqual(calm.exit, Exit.succeed(photo.length))
      const places = calm.statements.flatMap((sql, index): ReadonlyArray<Place> => {
        const place = { at: index + 1, inFiles: false }
        const crash = { ...place, fault: "crashAfter" } as const
        return sql === "COMMIT" ? [crash, { ...place, fault: "lostAcknowledgement" }] : [crash]
      })
      for (let at = 1; at <= calm.operations; at += 1)
        places.push({ at, fault: "crashBefore", inFiles: true }, { at, fault: "crashAfter", inFiles: true })
      assert.isAbove(places.length, 40)
      for (const place of places) {
        const what = JSON.stringify(place)
        const { exit } = yield* story(place)
        if (place.fault === "lostAcknowledgement") assert.deepStrictEqual(exit, calm.exit, what)
        assert.deepStrictEqual(yield* Stream.runCollect(store.blobs!.damaged), [], what)
        for (const { runId } of yield* store.list()) {
          yield* endLeases(given)
          yield* store.remove(runId)
        }
        yield* store.blobs!.sweep(always)
        assert.deepStrictEqual(filesIn(directory), [], what)
        assert.deepStrictEqual(yield* rowsOf(given), [], what)
      }
    })
  })

/** A statement, or an operation on files, by its number, and its fault. */
interface Place {
  readonly at: number
  readonly fault: FaultySqlClient.Fault
  readonly inFiles: boolean
}

/** The rows of contents. */
const rowsOf = ({ client }: Filed) =>
  SqlClient.SqlClient.use((sql) => sql`SELECT blob FROM fermata_blobs`).pipe(
    Effect.provide(Layer.fresh(client))
  )

const endLeases = ({ client }: Filed) =>
  SqlClient.SqlClient.use((sql) => sql`UPDATE fermata_runs SET lease_until = 0, owner = NULL`).pipe(
    Effect.provide(Layer.fresh(client))
  )

const large = new Uint8Array(100_000).fill(9)
