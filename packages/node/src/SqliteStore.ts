/**
 * Keeps runs in one SQLite file, with the SQLite of Node.
 *
 * Several processes may use one file at the same time: every write takes SQLite's lock at its start, waits for the lock without blocking
 * the event loop, and is retried until a deadline. Acknowledged writes survive a killed process and, with `synchronous: "full"` (the
 * default), a power cut.
 *
 * @since 0.1.0
 */
import type { Id } from "@fermata/sdk"
import type { RunStore, RunStoreError } from "@fermata/sdk/store"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { BackupExists } from "./internal/BackupExists.ts"

export { BackupExists } from "./internal/BackupExists.ts"

/** The file, and how durably it is written. */
export interface Options {
  /** A file in an existing directory; the file is created if it is missing. `:memory:` keeps nothing. */
  readonly filename: string
  /**
   * `full` (the default) waits for the disk with every commit. `normal` is faster: a killed process still loses nothing, a power cut may
   * lose the last commits but does not damage the file.
   */
  readonly synchronous?: "full" | "normal"
  /** How long an operation is retried while another process holds the lock. Default: 10 seconds; then `StoreBusy`. */
  readonly busyDeadline?: Duration.Input
}

/**
 * Provides the run store in a SQLite file.
 *
 * **Details**
 *
 * Removed data leaves the file: deleted rows are overwritten, and the log that still holds them is emptied when its last reader ends
 * ({@link compact} clears the last trace). The store logs a warning when the log grows above 64 MB because a connection keeps reading
 * an old state. An open store does not keep the process alive.
 *
 * **Gotchas**
 *
 * The file, `-wal` and `-shm` belong together while the store is open: copy it with {@link backup}, and never delete one of them.
 * A process that has the store open must not open these files other than through SQLite, not even to read them (`fs.readFile`,
 * `fs.copyFile`): on POSIX, closing the file drops the locks of the whole process, and two processes then write at once.
 * Processes cannot share a file on a network file system; on Linux, the store logs a warning when it opens one there.
 *
 * **Errors**
 *
 * - `RunStoreError` — `CannotOpen` for a path that cannot be a database file; `StoreUnreadable` for a file that is not a database, has
 *   lost its log (or the log its file), is damaged or was made by a newer Fermata; `StoreBusy` when other processes kept it locked. A
 *   lost file is never replaced by a new one.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options): Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError> =>
  Layer.unwrap(
    Effect.map(
      Effect.promise(() => import("./internal/sqlite/open.ts")),
      ({ layer }) => layer(options)
    )
  )

/**
 * Copies a store into a new file, in its state at one moment, while other processes continue to write.
 *
 * **Details**
 *
 * A background thread makes the copy in one step, so that neither writers nor this process wait for it. The copy gets its name when it is
 * whole; until then it has another one in the same folder. It has the mode of the store's file. The operation cannot be interrupted
 * half-way.
 *
 * **Errors**
 *
 * - `BackupExists` — nothing was replaced; choose another name.
 * - `RunStoreError` — `CannotOpen` when there is no such store or the folder of `to` cannot be written, `StorageFull`,
 *   `StoreUnreadable` when the store is not a database or is damaged.
 *
 * @category maintaining
 * @since 0.1.0
 */
export const backup = (options: {
  /** The store. */
  readonly filename: string
  /** The new file. */
  readonly to: string
}): Effect.Effect<void, RunStoreError.RunStoreError | BackupExists> =>
  Effect.flatMap(
    Effect.promise(() => import("./internal/sqlite/backup.ts")),
    ({ backup }) => backup(options)
  )

/**
 * Closes a store to all writers for good: to every process that has it open, and to every process that opens it later.
 *
 * **When to use**
 *
 * Before a restored copy replaces a store whose processes may still be alive. Each of them fails with its next write, and no body of a
 * tool with side effects starts without a write. Ending the processes is still up to you.
 *
 * **Details**
 *
 * The store can still be read, to find out what happened after the backup. Only {@link restore} makes a writable store of it again; it
 * also takes a fenced store.
 *
 * **Errors**
 *
 * - `RunStoreError` — `CannotOpen` when there is no such store, `StoreBusy` when others kept it locked for 10 seconds,
 *   `StoreUnreadable` when it is damaged. Then end its processes before you continue.
 *
 * @category maintaining
 * @since 0.1.0
 */
export const fence = (options: {
  readonly filename: string
}): Effect.Effect<void, RunStoreError.RunStoreError> =>
  Effect.flatMap(
    Effect.promise(() => import("./internal/sqlite/fence.ts")),
    ({ fence }) => fence(options)
  )

/**
 * Makes a new store of a backup. Its runs are in their state at the time of the backup; a call with a side effect, which may have happened
 * since, is in doubt before its first start (see `doubtLaterEffects`).
 *
 * **When to use**
 *
 * Always, instead of copying the backup: a program that works on a copy repeats the effects that happened after the backup. First
 * {@link fence} the old store, and end its processes.
 *
 * **Details**
 *
 * Returns the ids of the runs that can continue, and the runs that cannot be read: none of their calls is executed, and they do not keep
 * other runs from being restored. No process owns a run of the new store. The backup stays unchanged.
 *
 * **Errors**
 *
 * - `BackupExists` — a file of the new name exists, and was not replaced; choose another name.
 * - `RunStoreError` — `CannotOpen` when there is no such backup or the folder of `to` cannot be written, `StorageFull`,
 *   `StoreUnreadable` when the backup is not a database, is damaged, or was made by a newer Fermata.
 *
 * @category maintaining
 * @since 0.1.0
 */
export const restore = (options: {
  /** The backup. */
  readonly from: string
  /** The new store. */
  readonly to: string
}): Effect.Effect<
  { readonly doubted: ReadonlyArray<Id.RunId>; readonly damaged: ReadonlyArray<RunStore.DamagedRun> },
  RunStoreError.RunStoreError | BackupExists
> =>
  Effect.flatMap(
    Effect.promise(() => import("./internal/sqlite/restore.ts")),
    ({ restore }) => restore(options)
  )

/** The result of a check. */
export interface CheckReport {
  /** Whether there are no problems. */
  readonly ok: boolean
  readonly runs: number
  readonly events: number
  readonly requests: number
  /** A sentence for each of the first hundred problems; a last one counts the rest. */
  readonly problems: ReadonlyArray<string>
}

/**
 * Reads every page, run, request, message and grant of a store, and reports problems. Changes nothing, creates no file, and works while
 * other processes use the store.
 *
 * **When to use**
 *
 * After damage to a disk or a file, before you rely on a backup, and from time to time. It reads the whole file, and blocks this process
 * while SQLite reads the pages: check a large store in a process of its own.
 *
 * **Errors**
 *
 * A damaged store is reported in the result, not as an error.
 *
 * - `RunStoreError` — `CannotOpen` when there is no such file or it may not be read, `StoreBusy` when others kept it locked.
 *
 * @category maintaining
 * @since 0.1.0
 */
export const check = (options: {
  readonly filename: string
}): Effect.Effect<CheckReport, RunStoreError.RunStoreError> =>
  Effect.flatMap(
    Effect.promise(() => import("./internal/sqlite/check.ts")),
    ({ check }) => check(options)
  )

/**
 * Rewrites the whole store without gaps, while others have it open.
 *
 * **When to use**
 *
 * After many removals, to make the file smaller. Also after a removal when the bytes of the file must hold no trace of the text: a
 * removal overwrites the rows, but where SQLite has moved a row to another page before, a part of it can remain in unused space of the
 * old page.
 *
 * **Gotchas**
 *
 * It blocks all writers (readers continue), needs as much free space as the store has, and blocks this process until it is done: compact
 * a large store in a process of its own, at a quiet time.
 *
 * **Errors**
 *
 * - `RunStoreError` — `CannotOpen` when there is no such store, `StoreBusy` when others kept writing for 10 seconds or still read the
 *   old text; `StorageFull`, `StoreUnreadable`. The store is then unchanged, or compacted.
 *
 * @category maintaining
 * @since 0.1.0
 */
export const compact = (options: {
  readonly filename: string
}): Effect.Effect<void, RunStoreError.RunStoreError> =>
  Effect.flatMap(
    Effect.promise(() => import("./internal/sqlite/compact.ts")),
    ({ compact }) => compact(options)
  )
