/**
 * Tests of contents in a database: what stays in its tables. They run on SQLite and Postgres.
 */
import { assert, describe, it } from "@effect/vitest"
import { type Blob, Id } from "@fermata/sdk"
import { BlobPort, RunStore, type RunStoreError, SqlRunStore } from "@fermata/sdk/store"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { asked, begun, run, showing, started, type Store } from "./sqlite/fixtures.ts"

/** A database, and another connection to it. */
export interface Database {
  readonly layer: Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError>
  readonly client: Layer.Layer<SqlClient.SqlClient, unknown>
  readonly rows: (sql: string) => Effect.Effect<ReadonlyArray<object>, unknown>
}

const mebibyte = 1024 * 1024
const large = new Uint8Array(mebibyte).fill(1)

/** A MiB and a half, in pieces. */
const content = Stream.make(large, new Uint8Array(mebibyte / 2))

export const blobTests = (name: string, database: Effect.Effect<Database, unknown, Scope.Scope>): void =>
  void describe(`contents (${name})`, () => {
    const test = (
      title: string,
      body: (
        store: Store,
        blobs: BlobPort.BlobPort,
        database: Database
      ) => Effect.fn.Return<unknown, unknown, Scope.Scope>
    ) =>
      it.effect(title, () =>
        Effect.gen(function* () {
          const given = yield* database
          yield* Effect.flatMap(RunStore.RunStore, (store) =>
            Effect.gen(() => body(store, store.blobs!, given))
          ).pipe(Effect.provide(Layer.fresh(given.layer)))
        })
      )

    /** The numbers of rows. */
    const left = Effect.fnUntraced(function* ({ rows }: Database) {
      const count = (table: string) => Effect.map(rows(`SELECT * FROM ${table}`), ({ length }) => length)
      return {
        contents: yield* count("fermata_blobs"),
        pieces: yield* count("fermata_blob_pieces"),
        uses: yield* count("fermata_blob_uses")
      }
    })
    const nothing = { contents: 0, pieces: 0, uses: 0 }

    test("leave no row and no piece when they are deleted or could not be stored", function* (store, blobs, given) {
      const ref = yield* blobs.put(content)
      yield* Effect.flatMap(started(store, run(1), showing(ref)), store.release)
      const small = yield* blobs.putAll([new Uint8Array([1]), new Uint8Array([2])])
      yield* Effect.flatMap(started(store, run(2), ...small.map(showing)), store.release)
      assert.strictEqual(
        yield* Effect.flip(blobs.put(Stream.concat(content, Stream.fail("broken")))),
        "broken"
      )
      const interrupted = yield* Effect.forkChild(blobs.put(Stream.concat(content, Stream.never)))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(interrupted)
      assert.deepStrictEqual(yield* left(given), { contents: 3, pieces: 8, uses: 3 })
      yield* store.remove(run(1))
      yield* store.remove(run(2))
      assert.deepStrictEqual(yield* left(given), nothing)
      yield* blobs.put(content)
      assert.strictEqual(yield* blobs.sweep({ storedBefore: 1 }), 1)
      assert.deepStrictEqual(yield* left(given), nothing)
    })

    test("leave nothing when they are stored again while they are there", function* (_, blobs, given) {
      yield* blobs.put(content)
      yield* blobs.put(content)
      yield* blobs.put(Stream.make(new Uint8Array([1])))
      yield* blobs.put(Stream.make(new Uint8Array([1])))
      assert.deepStrictEqual(yield* left(given), { contents: 2, pieces: 7, uses: 0 })
    })

    test("are visible only when they are whole, and their beginning is deleted an hour after its last piece", function* (store, blobs, given) {
      const begun = yield* Deferred.make<void>()
      const go = yield* Deferred.make<void>()
      const slow = Stream.concat(
        Stream.concat(content, content),
        Stream.unwrap(
          Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(go)), content)
        )
      )
      const putting = yield* Effect.forkChild(Effect.exit(blobs.put(slow)))
      yield* Deferred.await(begun)
      yield* TestClock.adjust(BlobPort.graceTime)
      yield* store.prune({ endedBefore: 0 })
      assert.strictEqual((yield* left(given)).contents, 1)
      yield* TestClock.adjust(1)
      assert.strictEqual(yield* blobs.sweep({ storedBefore: 1 }), 0)
      assert.deepStrictEqual(yield* left(given), nothing)
      yield* Deferred.succeed(go, undefined)
      const exit = yield* Fiber.join(putting)
      assert.strictEqual(exit._tag, "Failure")
      assert.deepStrictEqual(yield* left(given), nothing)
    })

    test("are not swept while their pieces arrive", function* (store, blobs) {
      const later = TestClock.adjust(0.75 * BlobPort.graceTime).pipe(
        Effect.andThen(store.prune({ endedBefore: 0 })),
        Effect.as(large)
      )
      const ref = yield* blobs.put(Stream.concat(content, Stream.take(Stream.fromEffectRepeat(later), 4)))
      assert.strictEqual(
        yield* Stream.runFold(
          blobs.read(ref.sha256),
          () => 0,
          (count, piece) => count + piece.length
        ),
        ref.bytes
      )
    })

    test("go with a run that an earlier version removed, at the next prune", function* (store, blobs, given) {
      const shared = yield* blobs.put(content)
      const own = yield* blobs.put(Stream.make(new Uint8Array([1])))
      for (const [index, refs] of [[shared, own], [shared]].entries())
        yield* Effect.flatMap(started(store, run(index), ...refs.map(showing)), store.release)
      yield* given.rows(`DELETE FROM fermata_runs WHERE run_id = '${run(0)}'`)
      yield* store.prune({ endedBefore: 0 })
      assert.deepStrictEqual(yield* blobs.find([shared.sha256, own.sha256]), [shared])
      assert.deepStrictEqual(yield* blobs.uses([run(0)]), [])
      assert.strictEqual((yield* blobs.uses([run(1)])).length, 1)
    })

    test("stay whole while a process of an earlier version removes, prunes, imports and decides their runs, and go with the next prune", function* (store, blobs, given) {
      const older = Context.get(yield* Layer.build(earlier(given)), RunStore.RunStore)
      const names = ["removed", "pruned", "imported", "again", "decided"] as const
      const shared = yield* blobs.put(content)
      const refs: Array<Blob.BlobRef> = [shared]
      for (const name of names) {
        const own = yield* blobs.put(Stream.make(large, new TextEncoder().encode(name)))
        refs.push(own)
        const runId = run(name)
        const lease = yield* started(store, runId, showing(shared), showing(own), asked(runId, "Which?"))
        const expected = (yield* store.head(runId)).revision
        if (name === "pruned")
          yield* store.append({
            lease,
            expected,
            events: [{ _tag: "run.cancelled", at: 2, reason: "no", calls: [] }],
            status: "cancelled"
          })
        yield* store.release(lease)
      }
      const imported = run("imported")
      yield* older.remove(run("removed"))
      yield* older.remove(imported)
      const copy = { runId: imported, sessionId: Id.SessionId.make("other"), agent: "root" }
      const events = [begun(imported), { _tag: "run.held", at: 1 }] as const
      yield* older.restore([{ ...copy, status: "held", events }], [], [])
      yield* older.remove(run("again"))
      yield* Effect.flatMap(started(older, run("again")), older.release)
      const [open] = yield* older.pending({ runId: run("decided") })
      yield* older.decide({ _tag: "answer", requestId: open!.request.requestId, by: "old", answer: "me" })
      assert.strictEqual(yield* older.prune({ endedBefore: Number.MAX_SAFE_INTEGER }), 1)
      assert.deepStrictEqual((yield* older.list()).map(({ runId }) => runId).toSorted(), [
        run("again"),
        run("decided"),
        run("imported")
      ])
      assert.deepStrictEqual(yield* blobs.find(refs.map(({ sha256 }) => sha256)), refs.toSorted(bySha256))
      assert.deepStrictEqual(yield* Stream.runCollect(blobs.damaged), [])

      yield* store.prune({ endedBefore: 0 })
      assert.deepStrictEqual(yield* Stream.runCollect(blobs.damaged), [])
      const kept = [refs[0]!, refs[3]!, refs[4]!, refs[5]!]
      assert.deepStrictEqual(yield* blobs.find(refs.map(({ sha256 }) => sha256)), kept.toSorted(bySha256))
      for (const { runId } of yield* store.list()) yield* store.remove(runId)
      assert.deepStrictEqual(yield* left(given), nothing)
    })

    test("are found when they are missing or changed, with the runs that refer to them", function* (store, blobs, given) {
      const kinds = ["sound", "missing", "changed", "cut"] as const
      const refs: Record<string, Blob.BlobRef> = {}
      for (const [index, kind] of kinds.entries()) {
        const ref = yield* blobs.put(Stream.make(large, new Uint8Array([index])))
        refs[kind] = ref
        yield* Effect.flatMap(started(store, Id.RunId.make(`run_${kind}`), showing(ref)), store.release)
      }
      assert.deepStrictEqual(yield* Stream.runCollect(blobs.damaged), [])
      const { changed, cut, missing } = refs as Record<(typeof kinds)[number], Blob.BlobRef>
      const pieceOf = ({ sha256 }: Blob.BlobRef, place: number) =>
        `blob = (SELECT blob FROM fermata_blobs WHERE sha256 = '${sha256}') AND place = ${place}`
      yield* given.rows(`UPDATE fermata_blobs SET sha256 = NULL WHERE sha256 = '${missing.sha256}'`)
      yield* given.rows(`UPDATE fermata_blob_pieces SET content =
        (SELECT content FROM fermata_blob_pieces WHERE ${pieceOf(cut, 4)}) WHERE ${pieceOf(changed, 4)}`)
      yield* given.rows(`DELETE FROM fermata_blob_pieces WHERE ${pieceOf(cut, 2)}`)
      const found = yield* Stream.runCollect(blobs.damaged)
      assert.deepStrictEqual(
        found.toSorted((a, b) => (a.runIds[0]! < b.runIds[0]! ? -1 : 1)),
        [
          { sha256: changed.sha256, problem: "changed", runIds: [Id.RunId.make("run_changed")] },
          { sha256: cut.sha256, problem: "changed", runIds: [Id.RunId.make("run_cut")] },
          { sha256: missing.sha256, problem: "missing", runIds: [Id.RunId.make("run_missing")] }
        ]
      )
      const reasonOf = (ref: Blob.BlobRef) =>
        Effect.map(Effect.flip(Stream.runDrain(blobs.read(ref.sha256))), ({ reason }) => reason._tag)
      assert.deepStrictEqual(
        [yield* reasonOf(missing), yield* reasonOf(cut)],
        ["BlobMissing", "StoreUnreadable"]
      )
      yield* store.remove(Id.RunId.make("run_missing"))
      yield* store.remove(Id.RunId.make("run_cut"))
      assert.strictEqual((yield* Stream.runCollect(blobs.damaged)).length, 1)
    })

    test("let other processes write while they are stored", function* (_, blobs, given) {
      const other = Context.get(yield* Layer.build(Layer.fresh(given.layer)), RunStore.RunStore)
      let written = 0
      const between = Effect.sync(() => (written += 1)).pipe(
        Effect.flatMap((index) => started(other, run(index))),
        Effect.orDie,
        Effect.as(large)
      )
      yield* blobs.put(Stream.fromEffectRepeat(between).pipe(Stream.take(8)))
      assert.strictEqual((yield* other.list()).length, 8)
    })

    it.live("are never missing while two stores keep storing, using and removing one of them", () =>
      Effect.gen(function* () {
        const given = yield* database
        const open = Effect.map(Layer.build(Layer.fresh(given.layer)), Context.get(RunStore.RunStore))
        const rounds = Effect.fnUntraced(function* (store: Store, name: string) {
          for (let round = 0; round < 15; round += 1) {
            const runId = Id.RunId.make(`run_${name}${round}`)
            const ref = yield* store.blobs!.put(round % 2 === 0 ? content : Stream.make(large))
            yield* Effect.flatMap(started(store, runId, showing(ref)), store.release)
            const bytes = yield* Stream.runFold(
              store.blobs!.read(ref.sha256),
              () => 0,
              (count, piece) => count + piece.length
            )
            assert.strictEqual(bytes, ref.bytes)
            yield* store.remove(runId)
          }
        })
        const one = yield* open
        yield* Effect.all([rounds(one, "a"), rounds(yield* open, "b")], { concurrency: 2 })
        yield* one.prune({ endedBefore: 0 })
        assert.deepStrictEqual(yield* left(given), nothing)
      }).pipe(Effect.scoped)
    )

    test("are read to their end when they are deleted and stored again meanwhile", function* (store, blobs, given) {
      const ref = yield* blobs.put(content)
      yield* Effect.flatMap(started(store, run(1), showing(ref)), store.release)
      let bytes = 0
      yield* Stream.runForEach(
        blobs.read(ref.sha256),
        Effect.fnUntraced(function* (piece) {
          bytes += piece.length
          if (bytes === piece.length) {
            yield* store.remove(run(1))
            yield* blobs.put(content)
          }
        })
      )
      assert.strictEqual(bytes, ref.bytes)
      assert.strictEqual((yield* left(given)).contents, 1)
    })
  })

/** The store of a version that has no contents, in a process that opened it before the tables were migrated. */
const earlier = ({ client }: Database) =>
  Layer.fresh(SqlRunStore.layerWith({ mapConnection: withoutContents }).pipe(Layer.provide(client)))

/** A connection that skips each statement on contents. */
const withoutContents = (connection: Connection): Connection => ({
  execute: (text, ...given) =>
    text.includes("fermata_blob") ? Effect.succeed([]) : connection.execute(text, ...given),
  executeRaw: (...given) => connection.executeRaw(...given),
  executeUnprepared: (...given) => connection.executeUnprepared(...given),
  executeValues: (...given) => connection.executeValues(...given),
  executeValuesUnprepared: (...given) => connection.executeValuesUnprepared(...given),
  executeStream: (...given) => connection.executeStream(...given)
})

const bySha256 = (one: Blob.BlobRef, other: Blob.BlobRef) => (one.sha256 < other.sha256 ? -1 : 1)
