import { execFileSync } from "node:child_process"
import {
  existsSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as TestClock from "effect/testing/TestClock"
import { repeats } from "../../../../scripts/internal/effort.ts"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { temporaryDirectory, temporaryFile } from "../temporaryStore.ts"
import {
  asked,
  foreign,
  leftBehind,
  run,
  said,
  started,
  type Store,
  withStore,
  withWarnings
} from "./fixtures.ts"

const runs = 20

const populate = Effect.fnUntraced(function* (store: Store) {
  for (let index = 0; index < runs; index += 1) {
    const lease = yield* started(store, run(index), asked(run(index), `Which of the ${index}?`))
    yield* store.append({
      lease,
      expected: (yield* store.head(run(index))).revision,
      events: [said("more ".repeat(index * 60))],
      status: "held"
    })
    if (index % 2 === 0) yield* store.release(lease)
  }
})

/** Tag and message of the error on opening. Checks that all files are unchanged. */
const refusal = Effect.fnUntraced(function* (filename: string) {
  const before = contents(filename)
  const error = yield* Effect.flip(withStore(filename, (store) => store.list()))
  assert.deepStrictEqual(contents(filename), before)
  assert.isTrue(!error.message.includes(dirname(filename)), error.message)
  return [error.reason._tag, error.message] as const
})

const contents = (filename: string) =>
  readdirSync(dirname(filename))
    .toSorted()
    .map((name) => [name, readFileSync(join(dirname(filename), name)).toString("base64")])

describe("SqliteStore, when its files were damaged or deleted", () => {
  it.effect(
    "refuses a file that is missing or empty while its log is not, and leaves the log unchanged",
    () =>
      Effect.gen(function* () {
        const copy = yield* leftBehind(["-wal"], populate)
        for (const state of ["missing", "empty"]) {
          if (state === "empty") writeFileSync(copy, "")
          assert.deepStrictEqual(yield* refusal(copy), [
            "StoreUnreadable",
            `The store cannot be read: the file is ${state}, but its log (the file that ends in -wal) is not. Put the file back beside its log, or restore a backup; to start with nothing, delete the log.`
          ])
        }
        // The advice of the message works.
        rmSync(`${copy}-wal`)
        assert.deepStrictEqual(yield* withStore(copy, (store) => store.list()), [])
      })
  )

  it.effect("refuses a store whose log was deleted while the store was in use", () =>
    Effect.gen(function* () {
      const copy = yield* leftBehind(["", "-shm", "-wal"], populate)
      rmSync(`${copy}-wal`)
      const [tag, message] = yield* refusal(copy)
      assert.strictEqual(tag, "StoreUnreadable")
      assert.include(message, "put the log back or restore a backup")
      rmSync(`${copy}-shm`)
      yield* withStore(copy, (store) => store.list())
    })
  )

  for (const [what, change] of [
    ["its file is deleted", (file: string) => rmSync(file)],
    ["its file is moved away", (file: string) => renameSync(file, `${file}.old`)],
    [
      "its file is replaced by a copy",
      (file: string) => {
        // In another process, because closing the file would drop this one's locks.
        execFileSync("cp", [file, `${file}.copy`])
        renameSync(`${file}.copy`, file)
      }
    ],
    ["its log is deleted", (file: string) => rmSync(`${file}-wal`)]
  ] as const) {
    it.effect(`acknowledges no write after ${what} while the store is open`, () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        yield* withStore(filename, (store) =>
          Effect.gen(function* () {
            const lease = yield* started(store, run(0), asked(run(0), "Which?"))
            yield* store.release(lease)
            change(filename)
            const decision = { _tag: "answer", requestId: `${run(0)}.r1`, by: "ann", answer: "yes" } as const
            const refused = yield* Effect.flip(store.decide(decision as never))
            assert.strictEqual(refused._tag, "RunStoreError")
            if (refused._tag !== "RunStoreError") return
            assert.deepInclude(refused.reason, { _tag: "StoreFault", retryable: false })
            assert.include(refused.message, "was deleted, moved or replaced while this program had it open")
            assert.notInclude(refused.message, filename)
          })
        )
      })
    )
  }

  it.effect("accepts writes after the program has changed its directory", () =>
    Effect.gen(function* () {
      const before = process.cwd()
      process.chdir(yield* temporaryDirectory)
      const moved = withStore("runs.db", (store) =>
        Effect.gen(function* () {
          process.chdir(before)
          yield* started(store, run(0), asked(run(0), "Which?"))
          assert.lengthOf(yield* store.list(), 1)
        })
      )
      yield* Effect.ensuring(
        moved,
        Effect.sync(() => process.chdir(before))
      )
    })
  )

  it.effect("finds the log of a store behind a symbolic link", () =>
    Effect.gen(function* () {
      const copy = yield* leftBehind(["-wal"], populate)
      const directory = yield* temporaryDirectory
      writeFileSync(copy, "")
      symlinkSync(copy, join(directory, "runs.db"))
      assert.strictEqual((yield* refusal(join(directory, "runs.db")))[0], "StoreUnreadable")
    })
  )

  it.effect("reads every run when only the index of the log was deleted", () =>
    Effect.gen(function* () {
      const copy = yield* leftBehind(["", "-wal"], populate)
      assert.strictEqual((yield* withStore(copy, (store) => store.list())).length, runs)
    })
  )

  it.effect("has its tables in the file itself as soon as it is opened", () =>
    Effect.gen(function* () {
      const copy = yield* leftBehind([""], () => Effect.void)
      const tables = foreign(copy, (database) => database.prepare("SELECT name FROM sqlite_schema").all())
      assert.isTrue(tables.some(({ name }) => name === "fermata_runs"))
    })
  )

  it.effect("warns when it creates a store in an empty file", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      writeFileSync(filename, "")
      utimesSync(filename, 1, 1)
      const { warnings } = yield* withWarnings(withStore(filename, (store) => store.list()))
      assert.deepStrictEqual(warnings, [
        "The file of the store was empty, so a new store was made in it. If it held runs before, stop, and restore a backup."
      ])
      assert.deepStrictEqual((yield* withWarnings(withStore(filename, (store) => store.list()))).warnings, [])
    })
  )

  it.effect("refuses a truncated file of any length", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, populate)
      const whole = readFileSync(filename)
      for (let size = 2; size < whole.length; size += size < 200 ? 33 : 2921) {
        const copy = yield* temporaryFile
        writeFileSync(copy, whole)
        truncateSync(copy, size)
        assert.strictEqual((yield* refusal(copy))[0], "StoreUnreadable", `${size}`)
      }
    })
  )

  it.effect(
    "refuses a file without a log that was truncated within its last page, and leaves it unchanged",
    () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        yield* withStore(filename, populate)
        foreign(filename, (database) => database.exec("PRAGMA journal_mode = DELETE"))
        truncateSync(filename, statSync(filename).size - 100)
        assert.deepStrictEqual(yield* refusal(filename), ["StoreUnreadable", damaged])
        for (const look of [
          SqliteStore.backup({ filename, to: `${filename}.copy` }),
          SqliteStore.compact({ filename })
        ]) {
          const error = yield* Effect.flip(look)
          assert.strictEqual(error.message, damaged)
        }
        assert.deepStrictEqual((yield* SqliteStore.check({ filename })).problems, [damaged])
      })
  )

  it.effect("refuses a database whose schema table lost its entries", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, populate)
      const bytes = readFileSync(filename)
      // The number of entries on the first page, which is the root of the schema table. The entries of the last page beside it stay.
      bytes.writeUInt16BE(0, 103)
      writeFileSync(filename, bytes)
      const { message } = yield* Effect.flip(withStore(filename, (store) => store.list()))
      assert.include([damaged, withoutTables], message)
    })
  )

  it.effect("works again a second after its table is back", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, populate)
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          foreign(filename, (database) => database.exec("ALTER TABLE fermata_runs RENAME TO hidden"))
          // The first call finds that the tables changed, the second cannot be prepared.
          assert.strictEqual((yield* Effect.flip(store.list()))._tag, "RunStoreError")
          assert.strictEqual((yield* Effect.flip(store.head(run(1))))._tag, "RunStoreError")
          foreign(filename, (database) => database.exec("ALTER TABLE hidden RENAME TO fermata_runs"))
          yield* TestClock.adjust("1 second")
          assert.strictEqual((yield* store.list()).length, runs)
          assert.strictEqual((yield* store.head(run(1))).runId, run(1))
        })
      )
    })
  )

  it.effect("refuses a URI as its filename", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(withStore("file:runs.db?mode=memory", (store) => store.list()))
      assert.strictEqual(error.reason._tag, "CannotOpen")
      assert.include(error.message, "URI")
    })
  )

  for (const [filename, problem] of [
    [" ", "this is not a file name"],
    [":MEMORY:", "this is not `:memory:`"],
    [":memory", "this is not `:memory:`"],
    ["sqlite:runs.db", "this is a URI"],
    [tmpdir(), "it is a directory"],
    ["/dev/null", "it is a device or another special file"]
  ] as const) {
    it.effect(`refuses ${JSON.stringify(filename)} as its filename, and creates no file`, () =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(withStore(filename, (store) => store.list()))
        assert.strictEqual(error.reason._tag, "CannotOpen")
        assert.include(error.message, problem)
        assert.isFalse(filename.startsWith(":") && existsSync(filename))
      })
    )
  }

  it.effect(
    "reads its runs or fails with a typed error, for each of many damaged bytes",
    () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        yield* withStore(filename, populate)
        const whole = readFileSync(filename)
        const directory = yield* temporaryDirectory
        const outcomes = new Map<string, number>()
        const count = (key: string) => outcomes.set(key, (outcomes.get(key) ?? 0) + 1)
        let random = 20_261_121
        const below = (limit: number) => {
          random = (random * 16_807) % 2_147_483_647
          return random % limit
        }
        for (let flip = 0; flip < repeats(150); flip += 1) {
          // Every fifth in the header and the schema table, where a byte means most.
          const at = below(flip % 5 === 0 ? 4096 : whole.length)
          const bytes = Buffer.from(whole)
          bytes[at] = (bytes[at] ?? 0) ^ (1 + below(255))
          const copy = join(directory, `${flip}.db`)
          writeFileSync(copy, bytes)
          const outcome = yield* Effect.exit(
            withStore(copy, (store) =>
              Effect.gen(function* () {
                const found = yield* store.list()
                assert.isAbove(found.length, 0, `byte ${at}: a new, empty store`)
                for (let index = 0; index < runs; index += 1) {
                  yield* Effect.catchTag(store.load(run(index)), "RunNotFound", () =>
                    Effect.sync(() => count("a run is not found"))
                  )
                }
                yield* store.pending()
              })
            )
          )
          if (Exit.isSuccess(outcome)) count("read")
          else {
            const error = Cause.squash(outcome.cause)
            assert.isTrue(
              outcome.cause.reasons.every(({ _tag }) => _tag === "Fail"),
              `byte ${at}: ${Cause.pretty(outcome.cause)}`
            )
            count(error instanceof Error && "reason" in error ? error.message : String(error))
          }
          rmSync(copy)
        }
        if (process.env["FERMATA_VERBOSE"] !== undefined) console.log(Object.fromEntries(outcomes))
        assert.isAbove(outcomes.get("read") ?? 0, 0)
        assert.isAbove(outcomes.get(damaged) ?? 0, 0)
      }),
    300_000
  )
})

const damaged = "The store cannot be read: the database is damaged. Restore it from a backup."
const withoutTables =
  "The store cannot be read: its tables are not what this version expects: check it, or restore it from a backup."
