/**
 * Keeps runs in one SQLite file, with the SQLite that Node brings along.
 *
 * Several processes may use one file at the same time: every write takes the lock at its start, waits for it without blocking
 * the event loop, and is tried again until a deadline. What was acknowledged survives a killed process and, with
 * `synchronous: "full"` (the default), a power cut.
 *
 * @since 0.1.0
 */
import { statSync } from "node:fs"
import { dirname } from "node:path"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { classifySqliteError, isSqlError, SqlError } from "effect/sql/SqlError"
import { type RunStore, RunStoreError, SqlRunStore } from "@fermata/sdk/store"
import * as SqliteClient from "#sqlite-client"

/** Which file, and how carefully it is written. */
export interface Options {
  /** A file in a directory that exists; it is created when it is missing. `:memory:` keeps nothing. */
  readonly filename: string
  /**
   * `full` (the default) waits for the disk with every commit. `normal` is faster: a killed process still loses nothing, a
   * power cut may lose the last commits, and the file stays sound.
   */
  readonly synchronous?: "full" | "normal"
  /** How long to try while another process holds the lock. Default 10 seconds; then `StoreBusy`. */
  readonly busyDeadline?: Duration.Input
}

/**
 * The run store in a SQLite file.
 *
 * **Errors**
 *
 * - `RunStoreError` — `CannotOpen` for a path that cannot be a database file, `StoreUnreadable` for a file that is not a
 *   database or that a newer Fermata made, `StoreBusy` when others kept it locked.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options): Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError> => {
  const busyDeadline = options.busyDeadline ?? "10 seconds"
  return SqlRunStore.layerWith({ busyDeadline }).pipe(
    Layer.provide(Layer.effect(SqlClient.SqlClient, open(options, Duration.toMillis(busyDeadline)))),
    Layer.provide(Reactivity.layer)
  )
}

/** Milliseconds that SQLite itself may wait, and block the event loop; everything longer is an Effect's wait. */
const busyTimeoutMs = 10

/** What the write-ahead log is cut back to after it has been copied into the database. */
const journalSizeLimit = 64 * 1024 * 1024

const open = Effect.fnUntraced(function* (options: Options, deadlineMs: number) {
  if (options.filename === "" || options.filename.includes("\0")) {
    return yield* cannotOpen("this is not a file name. Give the name of a file, or `:memory:`.")
  }
  const client = yield* connect(options).pipe(
    Effect.retry({
      while: (error) => error.reason._tag === "LockTimeoutError",
      schedule: Schedule.spaced("20 millis").pipe(Schedule.jittered, Schedule.upTo({ duration: deadlineMs }))
    }),
    Effect.mapError((error) =>
      error.reason._tag === "LockTimeoutError"
        ? failure(new RunStoreError.StoreBusy({ waitedMs: deadlineMs }))
        : whyNot(options.filename, SqlRunStore.toStoreError("open", error))
    )
  )
  return client
})

/** One attempt to open the file. The driver throws what SQLite reports; a half-open connection is closed again. */
const connect = Effect.fnUntraced(function* ({ filename, synchronous }: Options) {
  const scope = yield* Scope.fork(yield* Effect.scope)
  return yield* SqliteClient.make({ filename }).pipe(
    Effect.tap((sql) =>
      Effect.all([
        sql`PRAGMA busy_timeout = ${sql.literal(String(busyTimeoutMs))}`,
        sql`PRAGMA synchronous = ${sql.literal(synchronous === "normal" ? "NORMAL" : "FULL")}`,
        sql`PRAGMA journal_size_limit = ${sql.literal(String(journalSizeLimit))}`,
        warnOfOldVersion(sql)
      ])
    ),
    Scope.provide(scope),
    Effect.catchCause((cause) => {
      return Effect.andThen(Scope.close(scope, Exit.void), Effect.fail(reported(Cause.squash(cause))))
    })
  )
})

/** What the driver threw. Node gives SQLite's number as `errcode`, the classifier looks for `errno`. */
const reported = (error: unknown): SqlError => {
  if (isSqlError(error)) return error
  const errno = typeof error === "object" && error !== null && "errcode" in error ? error.errcode : undefined
  return new SqlError({ reason: classifySqliteError({ errno, cause: error }) })
}

/** SQLite before 3.51.3 can, very rarely, damage a file that several processes write; see https://sqlite.org/wal.html. */
const warnOfOldVersion = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const [row] = yield* sql<{ readonly version: string }>`SELECT sqlite_version() AS version`
  const [major = 0, minor = 0, patch = 0] = (row?.version ?? "").split(".").map(Number)
  if (major * 1_000_000 + minor * 1_000 + patch < 3_051_003) {
    yield* Effect.logWarning(
      `This Node brings SQLite ${row?.version}. Update Node before several processes use one store: 3.51.3 fixed a fault there.`
    )
  }
})

const failure = (reason: RunStoreError.RunStoreError["reason"]): RunStoreError.RunStoreError =>
  new RunStoreError.RunStoreError({ operation: "open", reason })

const cannotOpen = (detail: string) => failure(new RunStoreError.CannotOpen({ detail }))

/** SQLite says no more than "unable to open"; the file system knows the rest. */
const whyNot = (filename: string, error: RunStoreError.RunStoreError): RunStoreError.RunStoreError => {
  if (error.reason._tag === "StoreUnreadable" || filename === ":memory:") return error
  if (isDirectory(filename)) return cannotOpen("it is a directory. Give the name of a file in it.")
  if (!isDirectory(dirname(filename))) return cannotOpen("its directory does not exist. Create it first.")
  return error
}

const isDirectory = (path: string): boolean => {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
  } catch {
    return false
  }
}
