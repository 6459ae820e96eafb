/**
 * Keeps runs in one SQLite file, with the SQLite of Node.
 *
 * Several processes of one machine may use one file at the same time: every write takes SQLite's lock at its start, blocks the event loop
 * for at most 10 milliseconds at a time while it waits for the lock, and is retried until a deadline. Acknowledged writes survive a killed
 * process and, with `synchronous: "full"` (the default), a power cut.
 *
 * @since 0.1.0
 */
import type { Id } from "@fermata/sdk"
import type { RunStore, RunStoreError } from "@fermata/sdk/store"
import type * as Config from "effect/Config"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { BackupExists } from "./internal/BackupExists.ts"
import { readConfig } from "./internal/readConfig.ts"

export { BackupExists } from "./internal/BackupExists.ts"

/** The file, and how durably it is written. */
export interface Options {
  /**
   * A file in an existing directory; the file is created if it is missing. `:memory:` keeps the runs until the store is closed. A URI is
   * refused.
   */
  readonly filename: string
  /**
   * `full` (the default) waits for the disk with every commit. `normal` is faster: a killed process still loses nothing, a power cut may
   * lose the last commits but does not damage the file.
   */
  readonly synchronous?: "full" | "normal"
  /**
   * How long an operation, including opening the store, is retried while another connection holds the lock. Default: 10 seconds; then
   * `StoreBusy`.
   */
  readonly busyDeadline?: Duration.Input
  /**
   * An existing directory of this store alone, for attachments and other contents of more than 32 KiB: they then do not make the file
   * larger. All processes of the store need the same directory. The store writes its id into it, and refuses a directory of another store,
   * one with other files, and an empty directory if the store has used another one. Contents that are in the file stay there. A store that
   * has used a directory also opens without it, but cannot then read the contents in it.
   */
  readonly contents?: string
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
 * A new store is made in a missing file and in an empty one (with a warning, unless the file was just created), unless the log (`-wal`) of
 * a lost file is beside it. Opening a store with older tables migrates them; a Fermata that knows only the older tables then refuses the
 * store.
 *
 * **Gotchas**
 *
 * The file, `-wal` and `-shm` belong together while the store is open, and after its process was killed: copy the store with
 * {@link backup}, and never delete, move or replace one of the files. On local file systems of Linux and macOS, each later write of a program
 * that has the store open then fails (`StoreFault`, not retryable), so that nothing is acknowledged that ends with the process. Writes that
 * were acknowledged shortly before are lost with the file. On other file systems this is not noticed.
 * A process that has the store open must not open these files other than through SQLite, not even to read them (`fs.readFile`,
 * `fs.copyFile`): on POSIX, closing the file drops the locks of the whole process, and two processes then write at once.
 * Processes cannot share a file on a network file system; on Linux, the store logs a warning when it opens one there. Concurrent writes of
 * several processes can, very rarely, damage a file with SQLite before 3.51.3: the store logs a warning when Node includes such a version.
 *
 * **Errors**
 *
 * - `RunStoreError` — `CannotOpen` for an invalid option, a path that cannot be a database file, or a file that may not be written;
 *   `StoreUnreadable` for a file that is not a database, has lost its log (or the log its file), is damaged or was made by a newer Fermata;
 *   `StoreBusy` when other connections kept it locked for `busyDeadline`; `StorageFull`; `StoreFault` for other failures. A damaged file
 *   opens if the damage is in a part that opening does not read: see {@link check}.
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
 * Like {@link layer}, with options from the `ConfigProvider`: `SqliteStore.layerConfig({ filename: Config.String("RUNS") })`.
 *
 * **Errors**
 *
 * Those of {@link layer}, and `ConfigError` for a value that is missing or invalid.
 *
 * @category layers
 * @since 0.2.0
 */
export const layerConfig = (
  options: Config.Wrap<Options>
): Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError | Config.ConfigError> =>
  Layer.unwrap(Effect.map(readConfig(options), layer))

/**
 * Copies a store into a new file, in its state at one moment, while other processes continue to write.
 *
 * **Details**
 *
 * A background thread makes the copy in one step, so that neither writers nor this process wait for it. The copy gets its name when it is
 * whole; until then it has another one in the same folder, and a failure removes it. It has the mode of the store's file, within the umask.
 * The operation cannot be interrupted half-way. The content is not checked: damage is copied, so {@link check} the copy. Requests, grants
 * and messages are in the copy, too.
 *
 * **Errors**
 *
 * - `BackupExists` — a file with the name `to` exists; nothing was replaced. Choose another name.
 * - `RunStoreError` — `CannotOpen` when there is no such store or the folder of `to` cannot be written, `StorageFull`, `StoreBusy` when
 *   others kept the store locked for 10 seconds, `StoreUnreadable` when the store is not a database or too damaged to be opened,
 *   `StoreFault` for other failures.
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
 * Before a restored copy replaces a store whose processes may still be alive. Each of them fails with its next write (`StoreFault`, not
 * retryable), and no body of a tool with side effects starts without a write. Ending the processes is still up to you.
 *
 * **Details**
 *
 * The store can still be read, to find out what happened after the backup; opening it logs a warning. The fence stays: to continue with
 * this store, make a writable copy of it with {@link restore}, which also takes a fenced store.
 *
 * **Errors**
 *
 * After an error the store is not fenced: end its processes before you continue.
 *
 * - `RunStoreError` — `CannotOpen` when there is no such store, the file has no tables of Fermata or may not be written; `StoreBusy` when
 *   others kept it locked for 10 seconds; `StorageFull`; `StoreUnreadable` when it is damaged; `StoreFault` for other failures.
 *
 * @category maintaining
 * @since 0.1.0
 */
export const fence = (options: {
  /** The store. */
  readonly filename: string
}): Effect.Effect<void, RunStoreError.RunStoreError> =>
  Effect.flatMap(
    Effect.promise(() => import("./internal/sqlite/fence.ts")),
    ({ fence }) => fence(options)
  )

/**
 * Makes a new store of a backup. Its runs are in their state at the time of the backup. In each run that can continue, a call with side
 * effects may have run since: before its first start, the tool's `reconcile` determines its outcome, or the run is held with an `inDoubt`
 * request. Read-only and idempotent calls run as usual. See `doubtLaterEffects`.
 *
 * **When to use**
 *
 * Always, instead of copying the backup: a program that works on a copy repeats the effects that happened after the backup. First
 * {@link fence} the old store, and end its processes.
 *
 * **Details**
 *
 * `doubted` has the ids of the runs that can continue: the running, held and failed ones. `damaged` has the entries that cannot be read and
 * the failed runs whose journals cannot: none of their calls is executed, and they do not keep other runs from being restored. The
 * journals of running and held runs are not read, so that `doubted` may contain a damaged one: {@link check} the new store. No process
 * owns a run of the new store. The backup stays unchanged. The operation cannot be interrupted half-way; a failure leaves no new store.
 *
 * **Errors**
 *
 * - `BackupExists` — a file of the new name exists, and was not replaced; choose another name.
 * - `RunStoreError` — `CannotOpen` when there is no such backup or the folder of `to` cannot be written, `StorageFull`, `StoreBusy` when
 *   others kept the backup locked for 10 seconds, `StoreUnreadable` when the backup is not a database, is too damaged to be opened, or was
 *   made by a newer Fermata, `StoreFault` for other failures.
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
  /**
   * The number of runs in the store, including damaged ones. `runs`, `events` and `requests` are 0, or too low, if the check stopped early.
   */
  readonly runs: number
  /** The number of events in the journals, as far as these can be read. */
  readonly events: number
  /** The number of requests, open or closed, including damaged ones. */
  readonly requests: number
  /** A sentence for each of the first hundred problems. If there are more, a last sentence has the number of the others. */
  readonly problems: ReadonlyArray<string>
}

/**
 * Reads every page, run, request, message, grant, content and checkpoint of a store, and reports problems. With a directory of contents, it
 * reports missing and changed files, and files that belong to no content. Changes no data, creates no store, and works while other
 * processes use the store.
 *
 * **When to use**
 *
 * After damage to a disk or a file, before you rely on a backup, and from time to time. It reads the whole file, and blocks this process
 * while SQLite reads the pages: check a large store in a process of its own.
 *
 * **Errors**
 *
 * A damaged store, a file that is not a store, and an error of the disk are reported in the result, not as errors. What follows such a
 * problem may be unchecked.
 *
 * - `RunStoreError` — `CannotOpen` when there is no such file or it may not be read, `StoreBusy` when others kept it locked for 10 seconds.
 *
 * @category maintaining
 * @since 0.1.0
 */
export const check = (options: {
  /** The store. */
  readonly filename: string
  /** Its directory of contents, if it has one; see {@link Options}. */
  readonly contents?: string
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
 * It blocks all writers (readers continue), needs up to twice the size of the store as free space, and blocks this process until it is
 * done: compact a large store in a process of its own, at a quiet time.
 *
 * **Errors**
 *
 * After an error the store is unchanged, or compacted with the old text still in its file, until its log (`-wal`) is emptied. Call
 * `compact` again.
 *
 * - `RunStoreError` — `CannotOpen` when there is no such store or it may not be written, `StoreBusy` when others kept writing for 10
 *   seconds or still read the old text; `StorageFull`; `StoreUnreadable` when it is damaged; `StoreFault` for other failures.
 *
 * @category maintaining
 * @since 0.1.0
 */
export const compact = (options: {
  /** The store. */
  readonly filename: string
}): Effect.Effect<void, RunStoreError.RunStoreError> =>
  Effect.flatMap(
    Effect.promise(() => import("./internal/sqlite/compact.ts")),
    ({ compact }) => compact(options)
  )
