import { existsSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { type Blob, Display, Id } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { temporaryDirectory, temporaryFile } from "../temporaryStore.ts"
import { asked, foreign, leftBehind, run, said, showing, started, type Store, withStore } from "./fixtures.ts"

/** Five runs of four events, each with a question; the first is decided. */
const populate = Effect.fnUntraced(function* (store: Store) {
  for (let index = 1; index <= 5; index += 1) {
    const lease = yield* started(store, run(index), asked(run(index), "?"))
    const { revision } = yield* store.head(run(index))
    yield* store.append({ lease, expected: revision, events: [said("more")], status: "held" })
    yield* store.release(lease)
  }
  yield* store.decide({ _tag: "answer", requestId: Id.requestId(run(1), 1), by: "me", answer: "yes" })
  yield* store.send(run(2), { messageId: "m1", content: [{ _tag: "text", text: "hello" }] })
})

const problemsAfter = Effect.fnUntraced(function* (...damage: ReadonlyArray<string>) {
  const filename = yield* temporaryFile
  yield* withStore(filename, populate)
  foreign(filename, (database) => damage.forEach((sql) => database.exec(sql)))
  const { ok, problems } = yield* SqliteStore.check({ filename })
  assert.strictEqual(ok, problems.length === 0)
  return problems
})

/** The content of a message with a file. */
const messageOf = (ref: Blob.BlobRef) =>
  [{ _tag: "file", mediaType: "image/png", source: { _tag: "stored", ...ref } }] as const

/** The problem of a row that cannot be read. */
const damaged = (what: string, column: string) =>
  `The ${what} is damaged (${column}), or was written by a newer version of Fermata: update, restore the store from a backup, or remove the run.`

describe("SqliteStore.check", () => {
  it.effect("reports no problem in a sound store, also while it is open, and leaves no file behind", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const expected = { ok: true, runs: 5, events: 20, requests: 5, problems: [] }
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          yield* populate(store)
          assert.deepStrictEqual(yield* SqliteStore.check({ filename }), expected)
          yield* store.load(run(1))
        })
      )
      const before = readFileSync(filename)
      assert.deepStrictEqual(yield* SqliteStore.check({ filename }), expected)
      assert.deepStrictEqual(readdirSync(dirname(filename)), ["runs.db"])
      assert.isTrue(before.equals(readFileSync(filename)))
    })
  )

  it.effect("shows control characters of damaged ids as visible escapes", () =>
    Effect.gen(function* () {
      const problems = yield* problemsAfter(
        "UPDATE fermata_requests SET request_id = 'x' || char(27, 91, 50, 75, 8238, 10) WHERE run_id = 'run_5'"
      )
      assert.isTrue(
        problems.some((problem) => problem.includes("x\\u{1b}[2K\\u{202e}\\n")),
        problems.join("; ")
      )
      for (const problem of problems) assert.strictEqual(problem, Display.line(problem))
    })
  )

  it.effect("opens a store under any file name, also through a symbolic link", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const filename = join(directory, "a?b#c%20d.db")
      const linked = join(directory, "linked.db")
      symlinkSync(filename, linked)
      yield* withStore(linked, (store) =>
        Effect.gen(function* () {
          yield* populate(store)
          yield* SqliteStore.backup({ filename: linked, to: join(directory, "copy?mode=memory") })
        })
      )
      for (const name of [filename, linked, join(directory, "copy?mode=memory")]) {
        const { ok, runs } = yield* SqliteStore.check({ filename: name })
        assert.deepStrictEqual({ ok, runs }, { ok: true, runs: 5 })
      }
    })
  )

  it.effect("never creates a file", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const error = yield* Effect.flip(SqliteStore.check({ filename }))
      assert.strictEqual(error.message, "The store cannot be opened: there is no such file. Check its name.")
      assert.isFalse(existsSync(filename))
    })
  )

  it.effect("names a journal that has a gap, ends too early or cannot be read", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        yield* problemsAfter("DELETE FROM fermata_journal WHERE run_id = 'run_2' AND sequence = 0"),
        ["The journal of run_2 goes on at 3 after 0 events: restore a backup, or remove the run."]
      )
      assert.deepStrictEqual(
        yield* problemsAfter("DELETE FROM fermata_journal WHERE run_id = 'run_2' AND sequence = 3"),
        ["The run run_2 is at revision 4, but its journal ends at 3: restore a backup, or remove the run."]
      )
      assert.deepStrictEqual(
        yield* problemsAfter(
          "UPDATE fermata_journal SET events = '[{}]' WHERE run_id = 'run_3' AND sequence = 3"
        ),
        ["The journal of run_3 at revision 3 cannot be read: restore a backup, or remove the run."]
      )
      for (const column of ["version", "count"]) {
        assert.deepStrictEqual(
          yield* problemsAfter(
            `UPDATE fermata_journal SET ${column} = x'00' WHERE run_id = 'run_3' AND sequence = 3`
          ),
          ["The journal of run_3 at revision 3 cannot be read: restore a backup, or remove the run."]
        )
      }
      assert.deepStrictEqual(
        yield* problemsAfter(
          "UPDATE fermata_journal SET version = 99 WHERE run_id = 'run_3' AND sequence = 3"
        ),
        [
          "The journal of run_3 at revision 3 was written by a newer version of Fermata: update, then check again."
        ]
      )
      assert.deepStrictEqual(
        yield* problemsAfter("UPDATE fermata_runs SET status = 'asleep' WHERE run_id = 'run_4'"),
        [damaged("entry of the run run_4", "status")]
      )
    })
  )

  it.effect("names rows whose run is missing", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* problemsAfter("DELETE FROM fermata_runs WHERE run_id = 'run_5'"), [
        "There is a journal of run_5, but no such run.",
        "The request run_5.r1 belongs to run_5, but there is no such run."
      ])
      assert.deepStrictEqual(yield* problemsAfter("UPDATE fermata_messages SET run_id = 'run_9'"), [
        "The message m1 to run_9 exists, but there is no such run."
      ])
      assert.deepStrictEqual(
        yield* problemsAfter(
          "UPDATE fermata_runs SET parent_run_id = 'run_1', parent_revision = 5 WHERE run_id = 'run_5'"
        ),
        ["The run run_5 builds on run_1, which is missing or too short: restore a backup."]
      )
    })
  )

  it.effect("names requests and decisions that cannot be read", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        yield* problemsAfter(
          "UPDATE fermata_requests SET request = '{}' WHERE run_id = 'run_2'",
          "UPDATE fermata_requests SET decision = 'yes' WHERE run_id = 'run_1'",
          "UPDATE fermata_requests SET status = 'decided' WHERE run_id = 'run_3'"
        ),
        [
          damaged("request run_1.r1 of the run run_1", "decision"),
          damaged("request run_2.r1 of the run run_2", "request"),
          damaged("request run_3.r1 of the run run_3", "decision")
        ]
      )
    })
  )

  it.effect("names a message that cannot be read", () =>
    Effect.gen(function* () {
      for (const content of ["NULL", "'[{}]'", "'hello'"]) {
        assert.deepStrictEqual(yield* problemsAfter(`UPDATE fermata_messages SET content = ${content}`), [
          damaged("message m1 to the run run_2", "content")
        ])
      }
      assert.deepStrictEqual(yield* problemsAfter("UPDATE fermata_messages SET status = 'asleep'"), [
        "The message m1 to run_2 has an unknown status."
      ])
      assert.deepStrictEqual(yield* problemsAfter("DROP TABLE fermata_messages"), [
        "Tables are missing (fermata_messages): restore a backup."
      ])
    })
  )

  it.effect("names a grant that cannot be read or belongs to no run", () =>
    Effect.gen(function* () {
      const grant = (columns: string) =>
        `INSERT INTO fermata_grants (grant_id, run_id, session_id, agent, tool, scope, given_at, data, ${columns.split(" = ")[0]})
          VALUES ('run_1.r1.grant', 'run_1', 'session_of_run_1', 'root', 'pay', 'run', 1,
            '{"id":"run_1.r1.grant","tool":"pay","agent":"root","scope":"run","arguments":{},"by":"ann","at":1,"inherit":false}',
            ${columns.split(" = ")[1]})`
      assert.deepStrictEqual(yield* problemsAfter(grant("expires_at = NULL")), [])
      assert.deepStrictEqual(yield* problemsAfter(grant("expires_at = 7")), [
        damaged("grant run_1.r1.grant of the run run_1", "expires_at")
      ])
      assert.deepStrictEqual(yield* problemsAfter(grant("revoked_at = 7")), [
        damaged("grant run_1.r1.grant of the run run_1", "revoked_at")
      ])
      const elsewhere = "UPDATE fermata_grants SET run_id = 'run_9'"
      assert.deepStrictEqual(yield* problemsAfter(grant("expires_at = NULL"), elsewhere), [
        "The grant run_1.r1.grant belongs to run_9, but there is no such run: restore a backup, or revoke it."
      ])
      assert.deepStrictEqual(
        yield* problemsAfter(
          grant(`revocation = '{"by":"ben","at":7}'`),
          "UPDATE fermata_grants SET revoked_at = 7",
          elsewhere
        ),
        []
      )
      assert.deepStrictEqual(yield* problemsAfter("DROP TABLE fermata_grants"), [
        "Tables are missing (fermata_grants): restore a backup."
      ])
    })
  )

  it.effect(
    "names contents that are missing or damaged, and those that the store would delete or keep wrongly",
    () =>
      Effect.gen(function* () {
        const large = Stream.make(new Uint8Array(300_000).fill(1))
        const refs: Array<Blob.BlobRef> = []
        const problemsOf = Effect.fnUntraced(function* (sql: string) {
          const filename = yield* temporaryFile
          yield* withStore(filename, (store) =>
            Effect.gen(function* () {
              const put = (content: Stream.Stream<Uint8Array>) => store.blobs!.put(content)
              const mail = yield* put(Stream.make(new Uint8Array([1])))
              refs.splice(0, refs.length, yield* put(large), mail)
              yield* started(store, run(1), showing(refs[0]!))
              yield* started(store, run(2), said("?"), showing(yield* put(large)))
              yield* store.send(run(1), { messageId: "m1", content: messageOf(mail) })
              yield* put(Stream.make(new Uint8Array([2])))
            })
          )
          foreign(filename, (database) => database.exec(sql))
          return (yield* SqliteStore.check({ filename })).problems
        })
        assert.deepStrictEqual(yield* problemsOf(""), [])
        const [shared, mail] = refs.map(({ sha256 }) => sha256)
        const content = `The content ${shared} of the run run_1 and another run is`
        const isShared = `sha256 = '${shared}'`
        const blob = `blob = (SELECT blob FROM fermata_blobs WHERE ${isShared})`
        const damages = [
          `DELETE FROM fermata_blob_pieces WHERE ${blob} AND place = 1`,
          `DELETE FROM fermata_blob_pieces WHERE ${blob}`,
          `UPDATE fermata_blob_pieces SET content = 'text' WHERE ${blob} AND place = 1`,
          `UPDATE fermata_blob_pieces SET content = zeroblob(length(content)) WHERE ${blob} AND place = 1`,
          `UPDATE fermata_blob_pieces SET place = 2 WHERE ${blob} AND place = 1`,
          `UPDATE fermata_blobs SET bytes = 7 WHERE ${isShared}`
        ]
        for (const damage of damages)
          assert.deepStrictEqual(yield* problemsOf(damage), [`${content} damaged: restore a backup.`], damage)
        assert.deepStrictEqual(
          yield* problemsOf(`UPDATE fermata_blobs SET sha256 = NULL, unused = 1 WHERE ${isShared}`),
          [`${content} missing: restore a backup.`]
        )
        const unrecorded = (runId: string, sha256: string | undefined) =>
          `The run ${runId} refers to the content ${sha256}, which the store may delete, because its row in fermata_blob_uses is missing: restore a backup.`
        assert.deepStrictEqual(yield* problemsOf(`DELETE FROM fermata_blob_uses WHERE run_id = 'run_2'`), [
          unrecorded("run_2", shared)
        ])
        assert.deepStrictEqual(
          yield* problemsOf(`DELETE FROM fermata_blob_uses WHERE sha256 = '${mail}';
          UPDATE fermata_blobs SET unused = 1 WHERE sha256 = '${mail}'`),
          [unrecorded("run_1", mail)]
        )
        assert.deepStrictEqual(
          yield* problemsOf("INSERT INTO fermata_blob_pieces VALUES (7, 0, x'00'), (7, 1, x'00')"),
          ["There are pieces of a content that does not exist: delete the rows of 7 in fermata_blob_pieces."]
        )
        assert.deepStrictEqual(
          yield* problemsOf("INSERT INTO fermata_blobs VALUES (7, NULL, 0, 0, 0, NULL, NULL)"),
          [
            "No run refers to the content 7 of fermata_blobs, and it is not deleted: set `unused` of its row to 1, and prune."
          ]
        )
        assert.deepStrictEqual(yield* problemsOf("DROP TABLE fermata_blob_uses"), [
          "Tables are missing (fermata_blob_uses): restore a backup."
        ])
      })
  )

  it.effect("reports no problem in a store of a version without messages", () =>
    Effect.gen(function* () {
      const released = join(import.meta.dirname, "../fixtures/stores")
      for (const name of ["tables-1.sql", "tables-2.sql"]) {
        const filename = yield* temporaryFile
        foreign(filename, (database) => database.exec(readFileSync(join(released, name), "utf8")))
        assert.deepStrictEqual((yield* SqliteStore.check({ filename })).problems, [])
      }
    })
  )

  it.effect("reports damaged pages, a file that is not a database, and a database that is not a store", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, populate)
      const bytes = readFileSync(filename)
      bytes.fill(0xff, bytes.length - 4096)
      writeFileSync(filename, bytes)
      const { ok, problems } = yield* SqliteStore.check({ filename })
      assert.isFalse(ok)
      assert.isTrue(
        problems.every((problem) => /^The (file|store|journal|run|request)/.test(problem)),
        problems.join("\n")
      )

      writeFileSync(filename, "Dear diary, ".repeat(1000))
      assert.deepStrictEqual((yield* SqliteStore.check({ filename })).problems, [
        "The store cannot be read: the file is not a database. Choose another file, or move this one away."
      ])

      const other = yield* temporaryFile
      foreign(other, (database) => database.exec("CREATE TABLE notes (text)"))
      assert.deepStrictEqual((yield* SqliteStore.check({ filename: other })).problems, [
        "This is a database, but not a Fermata store: it has none of its tables. Check the name of the file."
      ])
    })
  )

  it.effect("reports that the log of a killed process is missing", () =>
    Effect.gen(function* () {
      const filename = yield* leftBehind(["", "-shm"], populate)
      const { ok, problems } = yield* SqliteStore.check({ filename })
      assert.isFalse(ok)
      assert.include(problems[0], "was deleted while the store was in use")
    })
  )

  it.effect("names a hundred problems and counts the rest", () =>
    Effect.gen(function* () {
      const problems = yield* problemsAfter(
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250)
        INSERT INTO fermata_journal SELECT (1000 + i) << 32, 'stray_' || i, 0, 1, 1, '[]' FROM n`
      )
      assert.strictEqual(problems.length, 101)
      assert.strictEqual(problems[100], "There are 150 more problems.")
    })
  )
})
