/**
 * Opens a SQLite store. Its own module, with all SQL, so that it is loaded only when the first store is opened.
 */
import { OptionsInvalid } from "@fermata/sdk/domain"
import { RunStore, RunStoreError, SqlRunStore } from "@fermata/sdk/store"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Options } from "../../SqliteStore.ts"
import { openDirectory } from "../contentFiles.ts"
import { networkFileSystemOf } from "../networkFileSystem.ts"
import * as SqliteClient from "./client.ts"
import { isFenced } from "./fence.ts"
import { cannotOpen, damaged, type Found, inspect, isCut, makeMovedCheck, reported, thrown } from "./file.ts"
import { changesOf, logLimit, versionOf, watchLog } from "./watch.ts"

/** The run store in a SQLite file. */
export const layer = (options: Options): Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError> =>
  Layer.provide(Layer.effect(RunStore.RunStore, make(options)), Reactivity.layer)

const make = Effect.fnUntraced(function* (options: Options) {
  const keys = OptionsInvalid.checkKeys("SqliteStore.layer", options, [
    "filename",
    "synchronous",
    "busyDeadline",
    "contents"
  ])
  if (Result.isFailure(keys)) return yield* cannotOpen("open", keys.failure.message)
  const { busyDeadline = "10 seconds", contents, filename, synchronous = "full" } = options
  if (synchronous !== "full" && synchronous !== "normal") {
    return yield* cannotOpen("open", 'its `synchronous` is neither "full" nor "normal". Give one of them.')
  }
  if (Number.isNaN(busyDeadline) || Option.isNone(Duration.fromInput(busyDeadline))) {
    return yield* cannotOpen("open", 'its `busyDeadline` is not a duration. Give one such as "10 seconds".')
  }
  const found = filename === ":memory:" ? undefined : yield* inspect("open", filename)
  const { isDamaged, isClosed, isNew, sql } = yield* open(options, found, Duration.toMillis(busyDeadline))
  if (isDamaged) return yield* damaged("open")
  const store = (extra: SqlRunStore.Options) =>
    Effect.provideService(
      SqlRunStore.make({ busyDeadline, ...filesIn(contents), ...extra }),
      SqlClient.SqlClient,
      sql
    )
  if (found === undefined) return yield* store({})

  yield* warnOfPlace(found)
  if (isClosed) yield* warnOfFence
  const { flush } = yield* watchLog({ sql, filename: found.path })
  const made = yield* store({ afterErase: flush, changes: yield* changesOf(versionOf(sql)) })
  // The tables must not be in the log alone: without it, the file would be an empty database that looks new.
  if (isNew) yield* flush
  return made
})

/** The option of the store for a directory of contents. */
const filesIn = (contents: string | undefined) =>
  contents === undefined ? {} : { files: openDirectory(contents) }

const soon = Schedule.jittered(Schedule.spaced("20 millis"))

/** The longest wait of SQLite itself for a lock, in milliseconds, which blocks the event loop. Longer waits are effects. */
const busyTimeoutMs = 10

const open = Effect.fnUntraced(function* (options: Options, found: Found | undefined, deadlineMs: number) {
  return yield* connect(options, found).pipe(
    Effect.retry({
      while: (error) => error.reason._tag === "LockTimeoutError",
      schedule: Schedule.upTo(soon, { duration: deadlineMs })
    }),
    Effect.mapError((error) =>
      error._tag === "RunStoreError"
        ? error
        : error.reason._tag === "LockTimeoutError"
          ? new RunStoreError.RunStoreError({
              operation: "open",
              reason: new RunStoreError.StoreBusy({ waitedMs: deadlineMs })
            })
          : thrown("open")(error)
    )
  )
})

/** Attempts to open the file once. Closes the connection again when SQLite fails. */
const connect = Effect.fnUntraced(function* ({ filename, synchronous }: Options, found: Found | undefined) {
  const scope = yield* Scope.fork(yield* Effect.scope)
  let requireUnmoved = () => {}
  return yield* SqliteClient.make({
    filename,
    afterCommit: () => requireUnmoved(),
    settings: settingsOf(synchronous),
    examine: (database) => {
      if (found?.state === "filled" && isCut(database, found.path)) throw damaged("open")
    }
  }).pipe(
    Effect.tap(() => warnOfOldVersion),
    Effect.flatMap((sql) => Effect.map(contentOf(sql), (content) => ({ sql, ...content }))),
    Effect.tap(() =>
      Effect.sync(() => {
        if (found !== undefined) requireUnmoved = makeMovedCheck(found.path)
      })
    ),
    Scope.provide(scope),
    Effect.catchCause((cause): Effect.Effect<never, SqlError | RunStoreError.RunStoreError> => {
      const error = Cause.squash(cause)
      return Effect.andThen(
        Scope.close(scope, Exit.void),
        Effect.fail(error instanceof RunStoreError.RunStoreError ? error : reported(error))
      )
    })
  )
})

/** The settings of each connection. */
const settingsOf = (synchronous: Options["synchronous"]): string => `
  PRAGMA busy_timeout = ${busyTimeoutMs};
  PRAGMA synchronous = ${synchronous === "normal" ? "NORMAL" : "FULL"};
  PRAGMA journal_size_limit = ${logLimit};
  -- Deleted text is overwritten, and none of it goes to temporary files.
  PRAGMA secure_delete = ON;
  PRAGMA temp_store = MEMORY;
  -- A damaged page is reported rather than read.
  PRAGMA cell_size_check = ON;`

/**
 * Whether a database is new: it has no tables and at most its first page. A database without tables that has more pages has lost its
 * schema table. One statement, so that no other process can create the tables in between.
 */
const contentOf = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const [content] = yield* sql<Content>`SELECT EXISTS (SELECT 1 FROM sqlite_schema) AS has_tables,
    ${sql.literal(isFenced)} AS is_fenced,
    (SELECT page_count FROM pragma_page_count) - (SELECT freelist_count FROM pragma_freelist_count) AS pages`
  const isNew = content?.has_tables !== 1
  return { isNew, isClosed: content?.is_fenced === 1, isDamaged: isNew && (content?.pages ?? 0) > 1 }
})

interface Content {
  readonly has_tables: number
  readonly is_fenced: number
  /** Pages in use. */
  readonly pages: number
}

const warnOfFence = Effect.logWarning(
  "The store is fenced: it can be read, but not written. Open the copy that replaced it."
)

const warnOfPlace = Effect.fnUntraced(function* ({ age, path, state }: Found) {
  // Another process may be creating a store in an empty file that has just been made.
  if (state === "empty" && age > 2000) {
    yield* Effect.logWarning(
      "The file of the store was empty, so a new store was made in it. If it held runs before, stop, and restore a backup."
    )
  }
  const network = yield* networkFileSystemOf(path)
  if (network !== undefined) {
    yield* Effect.logWarning(
      `The store lies on a network file system (${network}). SQLite needs a disk of this machine when several processes use one store: move the file, or use Postgres.`
    )
  }
})

/** SQLite before 3.51.3 can, very rarely, damage a file that several processes write; see https://sqlite.org/wal.html. */
const warnOfOldVersion = Effect.suspend(() => {
  const { sqlite = "" } = process.versions
  const [major = 0, minor = 0, patch = 0] = sqlite.split(".").map(Number)
  return major * 1_000_000 + minor * 1_000 + patch < 3_051_003
    ? Effect.logWarning(
        `This Node includes SQLite ${sqlite}. Update Node before several processes use one store: 3.51.3 fixes a fault in concurrent writes.`
      )
    : Effect.void
})
