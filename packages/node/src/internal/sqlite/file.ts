/**
 * The files of a SQLite store: checks before SQLite opens them, and SQLite's errors as errors of a store.
 *
 * SQLite takes an empty or missing file for a new database and deletes a log beside it. A store whose file was lost must not silently
 * become a new one, so such files are refused here, before anything is opened. Like SQLite, these checks block on the file system: ten
 * calls through a thread pool would take longer than opening the database does.
 *
 * Only SQLite opens the database, its log and its index. POSIX drops every lock that a process holds on a file when the process
 * closes any descriptor of it (https://sqlite.org/howtocorrupt.html, 2.2): a single `openSync` here would drop the locks of each
 * store that this process has open on the file. The content is read through a connection; `stat` opens nothing.
 */
import { realpathSync, statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { pathToFileURL } from "node:url"
import { RunStoreError, SqlRunStore } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { classifySqliteError, isSqlError, SqlError } from "effect/sql/SqlError"
import { hasSteadyInodes } from "../networkFileSystem.ts"

/** A file before it is opened. A `missing` or `empty` file becomes a new database. */
export interface Found {
  /** The path without symbolic links: SQLite keeps the log beside the file itself. */
  readonly path: string
  readonly state: "missing" | "empty" | "filled"
  /** Milliseconds since the last write, by the clocks of this machine. */
  readonly age: number
}

/** The write-ahead log of a database, which holds its last commits. */
export const logOf = (filename: string): string => `${filename}-wal`

const failure = (operation: string, reason: RunStoreError.RunStoreError["reason"]) =>
  new RunStoreError.RunStoreError({ operation, reason })

/** The error of a file that cannot be opened; `detail` says what to do. */
export const cannotOpen = (operation: string, detail: string): RunStoreError.RunStoreError =>
  failure(operation, new RunStoreError.CannotOpen({ detail }))

/** The error of a file that can be opened and is not a sound store; `detail` says what to do. */
const unreadable = (operation: string, detail: string): RunStoreError.RunStoreError =>
  failure(operation, new RunStoreError.StoreUnreadable({ detail }))

/** Checks the files of a store without opening them. */
export const inspect = Effect.fnUntraced(function* (operation: string, filename: string) {
  if (filename.trim() === "" || filename.includes("\0")) {
    return yield* cannotOpen(operation, "this is not a file name. Give the name of a file, or `:memory:`.")
  }
  if (/^(file:|sqlite:|[a-z][a-z\d+.-]*:\/\/)/i.test(filename)) {
    return yield* cannotOpen(operation, "this is a URI. Give the name of a file, or `:memory:`.")
  }
  if (filename.startsWith(":")) {
    return yield* cannotOpen(
      operation,
      "this is not `:memory:`, and a file name that begins with a colon is refused. Give `:memory:`, or the name of a file."
    )
  }
  if ((yield* look(dirname(filename)))?.directory !== true) {
    return yield* cannotOpen(operation, "its directory does not exist. Create it first.")
  }
  const path = yield* located(filename)
  // The log first: it appears after the file has its first page, and the file never becomes empty again.
  const log = yield* look(logOf(path))
  const file = yield* look(path)
  if (file?.directory === true) {
    return yield* cannotOpen(operation, "it is a directory. Give the name of a file in it.")
  }
  if (file?.ordinary === false) {
    return yield* cannotOpen(
      operation,
      "it is a device or another special file. Give the name of an ordinary file."
    )
  }
  // SQLite also takes a file of one byte for an empty one.
  const state: Found["state"] = file === undefined ? "missing" : file.size <= 1 ? "empty" : "filled"
  if (state !== "filled" && log !== undefined && log.size > 0) {
    return yield* unreadable(
      operation,
      `the file is ${state}, but its log (the file that ends in -wal) is not. Put the file back beside its log, or restore a backup; to start with nothing, delete the log.`
    )
  }
  if (yield* logWasDeleted(path)) {
    return yield* unreadable(
      operation,
      "its log (the file that ends in -wal) was deleted while the store was in use. Stop all that use the store, then put the log back or restore a backup; to go on without what was written last, delete the file that ends in -shm."
    )
  }
  return { path, state, age: file?.age ?? 0 } satisfies Found
})

/** The error of a database whose content SQLite cannot have written. */
export const damaged = (operation: string): RunStoreError.RunStoreError =>
  unreadable(operation, "the database is damaged. Restore it from a backup.")

/**
 * Whether the last page of a database was cut. SQLite writes whole pages and does not check the last one. False for a database with a
 * log, which may still hold its last page.
 */
export const isCut = (database: DatabaseSync, path: string): boolean => {
  // The first read: before it, SQLite reports the page size of a new database. Throws SQLite's errors.
  database.exec("SELECT 1 FROM sqlite_schema LIMIT 1")
  const pageSize = Number(database.prepare("PRAGMA page_size").get()?.["page_size"])
  const isLogEmpty = () => (sizeOf(logOf(path)) ?? 0) === 0
  if (!isLogEmpty()) return false
  const size = sizeOf(path) ?? 0
  // A log that was written in between may have been copied into the database while its size was read.
  return size % pageSize !== 0 && isLogEmpty()
}

/**
 * Whether the log of an open store, or of a killed process, was deleted. SQLite creates the log before its index (`-shm`) and deletes it
 * after the index, so an index that stays the same file while there is no log proves it.
 */
const logWasDeleted = Effect.fnUntraced(function* (filename: string) {
  const before = yield* look(`${filename}-shm`)
  if (before === undefined || (yield* look(logOf(filename))) !== undefined) return false
  return (yield* look(`${filename}-shm`))?.inode === before.inode
})

const located = (filename: string) =>
  Effect.sync(() => {
    try {
      return realpathSync.native(filename)
    } catch {
      return filename
    }
  })

const sizeOf = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.size

const look = (path: string) =>
  Effect.sync(() => {
    try {
      const found = statSync(path, { throwIfNoEntry: false })
      if (found === undefined) return undefined
      return {
        size: found.size,
        directory: found.isDirectory(),
        ordinary: found.isFile(),
        inode: found.ino,
        age: Date.now() - found.mtimeMs
      }
    } catch {
      return undefined
    }
  })

/**
 * Makes the check that an open database and its log are still the files with their names. Otherwise commits go to files that have no name,
 * and are lost when the process ends. The check throws SQLite's error for this case, which SQLite itself does not look for in WAL mode.
 */
export const makeMovedCheck = (path: string): (() => void) => {
  if (!hasSteadyInodes(path)) return () => {}
  // The program may change its directory.
  const file = resolve(path)
  const names = [file, logOf(file)]
  const inodeOf = (name: string) => statSync(name, { throwIfNoEntry: false })?.ino
  const known = names.map(inodeOf)
  return () => {
    if (names.some((name, index) => known[index] !== undefined && inodeOf(name) !== known[index])) {
      throw Object.assign(new Error("the files were moved"), { errcode: readonlyDbMoved })
    }
  }
}

/** SQLITE_READONLY_DBMOVED; see https://sqlite.org/rescode.html. */
const readonlyDbMoved = 1032

/** An error of SQLite or the file system as a `SqlError`. Node has SQLite's code in `errcode`; the classifier reads `errno`. */
export const reported = (error: unknown): SqlError => {
  if (isSqlError(error)) return error
  const errno = typeof error === "object" && error !== null && "errcode" in error ? error.errcode : undefined
  return new SqlError({ reason: classifySqliteError({ errno, cause: error }) })
}

/** A thrown error as the `RunStoreError` of a maintenance operation. */
export const thrown =
  (operation: string) =>
  (error: unknown): RunStoreError.RunStoreError => {
    const sqlError = reported(error)
    return sqlError.reason._tag === "LockTimeoutError"
      ? failure(operation, new RunStoreError.StoreBusy({ waitedMs: patienceMs }))
      : SqlRunStore.toStoreError(operation, sqlError)
  }

/** Runs a synchronous operation on a connection, and retries it for up to 10 seconds while others hold a lock. */
export const patiently = <A>(
  operation: string,
  act: () => A
): Effect.Effect<A, RunStoreError.RunStoreError> =>
  Effect.try({ try: act, catch: thrown(operation) }).pipe(
    Effect.retry({
      while: (error) => error.reason._tag === "StoreBusy",
      schedule: Schedule.spaced("20 millis").pipe(Schedule.jittered, Schedule.upTo({ duration: patienceMs }))
    })
  )

const patienceMs = 10_000

/** Opens a connection to an existing file, which is never created. */
export const openExisting = (
  operation: string,
  filename: string
): Effect.Effect<DatabaseSync, RunStoreError.RunStoreError, Scope.Scope> =>
  Effect.gen(function* () {
    const { path, state } = yield* inspect(operation, filename)
    if (state === "missing") {
      return yield* cannotOpen(operation, "there is no such file. Check its name.")
    }
    const location = pathToFileURL(resolve(path))
    location.searchParams.set("mode", "rw")
    const database = yield* Effect.acquireRelease(
      patiently(operation, () => connect(location)),
      (database) => Effect.sync(() => database.close())
    )
    if (yield* patiently(operation, () => isCut(database, path))) return yield* damaged(operation)
    return database
  })

const connect = (location: URL): DatabaseSync => {
  const database = new DatabaseSync(location, { timeout: 10 })
  try {
    // SQLite first reads the file here.
    database.exec("PRAGMA cell_size_check = ON; PRAGMA query_only = ON; SELECT 1 FROM sqlite_schema")
    return database
  } catch (error) {
    database.close()
    throw error
  }
}
