/**
 * A SQLite store as files: what the file system tells before SQLite is asked, and what SQLite throws as an error that a caller
 * understands.
 *
 * SQLite takes an empty or missing file for a new database and deletes a log that lies beside it. A store whose file was lost
 * must not become a new one in silence, so such files are refused here, before anything is opened. Like SQLite, this waits for the
 * file system: ten questions to a pool of threads would take longer than opening the database does.
 */
import { closeSync, openSync, readFileSync, readSync, realpathSync, statfsSync, statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { classifySqliteError, isSqlError, SqlError } from "effect/sql/SqlError"
import { RunStoreError, SqlRunStore } from "@fermata/sdk/store"

/** A file before it is opened. One that is `missing` or `empty` becomes a new database. */
export interface Found {
  /** Where it really is: SQLite keeps the log beside that, whatever link led there. */
  readonly path: string
  readonly state: "missing" | "empty" | "filled"
  /** Milliseconds since it was written, by the clocks of this machine. */
  readonly age: number
}

/** The write-ahead log beside a database: what was committed last. */
export const logOf = (filename: string): string => `${filename}-wal`

const failure = (operation: string, reason: RunStoreError.RunStoreError["reason"]) =>
  new RunStoreError.RunStoreError({ operation, reason })

/** The file cannot be opened; `detail` says what to do. */
export const cannotOpen = (operation: string, detail: string): RunStoreError.RunStoreError =>
  failure(operation, new RunStoreError.CannotOpen({ detail }))

/** The file can be opened, and is not what it should be; `detail` says what to do. */
const unreadable = (operation: string, detail: string): RunStoreError.RunStoreError =>
  failure(operation, new RunStoreError.StoreUnreadable({ detail }))

/** Looks at the files of a store without opening them. */
export const inspect = Effect.fnUntraced(function* (operation: string, filename: string) {
  if (filename === "" || filename.includes("\0")) {
    return yield* cannotOpen(operation, "this is not a file name. Give the name of a file, or `:memory:`.")
  }
  if (filename.startsWith("file:")) {
    return yield* cannotOpen(operation, "this is a URI. Give the name of a file, or `:memory:`.")
  }
  if ((yield* look(dirname(filename)))?.directory !== true) {
    return yield* cannotOpen(operation, "its directory does not exist. Create it first.")
  }
  const path = yield* located(filename)
  // The log is looked at before the file: it appears after the file has its first page, and the file never shrinks to nothing.
  const log = yield* look(logOf(path))
  const file = yield* look(path)
  if (file?.directory === true) {
    return yield* cannotOpen(operation, "it is a directory. Give the name of a file in it.")
  }
  // SQLite takes a single byte for nothing as well.
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
  if (file !== undefined && state === "filled" && (log?.size ?? 0) === 0) {
    const pageSize = yield* pageSizeOf(path)
    const filling = (yield* look(logOf(path)))?.size ?? 0
    if (pageSize > 0 && file.size % pageSize !== 0 && filling === 0) return yield* damaged(operation)
  }
  return { path, state, age: file?.age ?? 0 } satisfies Found
})

/** The database holds what SQLite cannot have written. */
export const damaged = (operation: string): RunStoreError.RunStoreError =>
  unreadable(operation, "the database is damaged. Restore it from a backup.")

/** The page size that a database's header tells, or 0. SQLite writes whole pages, but does not see that the last one was cut. */
const pageSizeOf = (filename: string) =>
  Effect.sync(() => {
    try {
      const file = openSync(filename, "r")
      try {
        const buffer = Buffer.alloc(18)
        const isWhole = readSync(file, buffer, 0, 18, 0) === 18
        const isDatabase = isWhole && buffer.toString("latin1", 0, 16) === "SQLite format 3\0"
        // 1 stands for 65,536; then every size fits, which is harmless.
        return isDatabase ? buffer.readUInt16BE(16) : 0
      } finally {
        closeSync(file)
      }
    } catch {
      return 0
    }
  })

/**
 * Whether somebody took the log away from a store that is open, or that a killed process left. SQLite makes the log before the
 * index of it (`-shm`) and deletes it after, so an index that stays the same file while there is no log proves it.
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

const look = (path: string) =>
  Effect.sync(() => {
    try {
      const found = statSync(path, { throwIfNoEntry: false })
      if (found === undefined) return undefined
      return {
        size: found.size,
        directory: found.isDirectory(),
        inode: found.ino,
        age: Date.now() - found.mtimeMs
      }
    } catch {
      return undefined
    }
  })

/** What was thrown by SQLite or the file system. Node gives SQLite's number as `errcode`, the classifier looks for `errno`. */
export const reported = (error: unknown): SqlError => {
  if (isSqlError(error)) return error
  const errno = typeof error === "object" && error !== null && "errcode" in error ? error.errcode : undefined
  return new SqlError({ reason: classifySqliteError({ errno, cause: error }) })
}

/** What was thrown in the end, as the error that a caller of the store sees. */
export const thrown =
  (operation: string) =>
  (error: unknown): RunStoreError.RunStoreError => {
    const sqlError = reported(error)
    return sqlError.reason._tag === "LockTimeoutError"
      ? failure(operation, new RunStoreError.StoreBusy({ waitedMs: patienceMs }))
      : SqlRunStore.toStoreError(operation, sqlError)
  }

/** Does something with a connection; again, for up to 10 seconds, while others hold a lock. */
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

/** A connection of its own to a file that is there. It is never made. */
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
    return yield* Effect.acquireRelease(
      patiently(operation, () => connect(location)),
      (database) => Effect.sync(() => database.close())
    )
  })

const connect = (location: URL): DatabaseSync => {
  const database = new DatabaseSync(location, { timeout: 10 })
  try {
    // Where SQLite first reads the file.
    database.exec("PRAGMA cell_size_check = ON; PRAGMA query_only = ON; SELECT 1 FROM sqlite_schema")
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

/** The name of the network file system that a path lies on, if it is one: processes cannot share a store there. */
export const networkFileSystemOf = (path: string): Effect.Effect<string | undefined> =>
  Effect.sync(() => {
    try {
      // Elsewhere the numbers mean other things.
      if (process.platform !== "linux") return undefined
      const { type } = statfsSync(dirname(path))
      if (type !== fuse) return networkFileSystems.get(type)
      return remoteMount(readFileSync("/proc/self/mounts", "utf8"), resolve(path))
    } catch {
      return undefined
    }
  })

/** Numbers that `statfs` gives on Linux; see `man 2 statfs`. */
const networkFileSystems: ReadonlyMap<number, string> = new Map([
  [0x6969, "NFS"],
  [0x517b, "SMB"],
  [0xfe534d42, "SMB"],
  [0xff534d42, "SMB"],
  [0x01021997, "9p"],
  [0x5346414f, "AFS"],
  [0x00c36400, "Ceph"]
])
const fuse = 0x65735546

/** The kind of remote FUSE mount that a path lies on, by the lines of `/proc/self/mounts`; the longest mount point counts. */
export const remoteMount = (mounts: string, path: string): string | undefined => {
  let best = { length: 0, type: "" }
  for (const line of mounts.split("\n")) {
    const [, point = "", type = ""] = line.split(" ")
    const place = point.replaceAll("\\040", " ")
    const inside = path === place || path.startsWith(place.endsWith("/") ? place : `${place}/`)
    if (place !== "" && inside && place.length >= best.length) best = { length: place.length, type }
  }
  return /^fuse\.(sshfs|rclone|s3fs|gcsfuse|glusterfs|davfs2?|curlftpfs)$/.test(best.type)
    ? best.type.slice("fuse.".length)
    : undefined
}
