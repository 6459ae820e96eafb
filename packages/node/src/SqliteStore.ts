/**
 * Keeps runs in one SQLite file, with the SQLite that Node brings along.
 *
 * Several processes may use one file at the same time: every write takes the lock at its start, waits for it without blocking
 * the event loop, and is tried again until a deadline. What was acknowledged survives a killed process and, with
 * `synchronous: "full"` (the default), a power cut.
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
 * **Details**
 *
 * What is removed leaves the file: deleted rows are overwritten, and the log that still holds them is emptied as soon as nobody
 * reads it ({@link compact} clears the last trace). A log that grows above 64 MB, because somebody keeps reading an old state, is
 * warned of. An open store does not keep the process alive.
 *
 * **Gotchas**
 *
 * The file, `-wal` and `-shm` belong together while the store is open: copy it with {@link backup}, and never delete one of them.
 * A process that has the store open must not open these files other than through SQLite, not even to read them (`fs.readFile`,
 * `fs.copyFile`): on POSIX, closing the file drops the locks of the whole process, and two processes then write at once.
 * Processes cannot share a file on a network file system; opening one there is warned of.
 *
 * **Errors**
 *
 * - `RunStoreError` — `CannotOpen` for a path that cannot be a database file, `StoreUnreadable` for a file that is not a
 *   database, that lost its log (or the log its file), that is damaged or that a newer Fermata made, `StoreBusy` when others kept
 *   it locked. Nothing is created in the place of what is lost.
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
 * Copies a store into a new file, as it was at one moment, while others go on writing.
 *
 * **Details**
 *
 * The copy is made in one step in a background thread, so that neither writers nor this process wait for it. It is made beside
 * `to` under another name and gets its own when it is whole. It cannot be interrupted half-way. Only who may read the store may
 * read the copy.
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
 * Closes a store to all writers for good: to every process that has it open, whatever it does, and to every one that opens it later.
 *
 * **When to use**
 *
 * Before a restored copy takes the place of a store whose processes may still be alive. Each of them fails with its next write, and
 * no body of a tool with side effects starts without one. Ending them is still up to you.
 *
 * **Details**
 *
 * The store can still be read: to see what was done after the backup. There is no way back but {@link restore}, which takes a fenced
 * store as well.
 *
 * **Errors**
 *
 * - `RunStoreError` — `CannotOpen` when there is no such store, `StoreBusy` when others kept it locked for 10 seconds,
 *   `StoreUnreadable` when it is damaged. Then its processes have to be ended before anything else is done.
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
 * Makes a new store of a backup. Its runs stand where they stood when the backup was made; a side effect that may have happened since
 * is in doubt before its first start (see `doubtLaterEffects`).
 *
 * **When to use**
 *
 * Always, instead of copying the backup: a program that works on a copy repeats what was done after the backup was made. First
 * {@link fence} the old store, and end its processes.
 *
 * **Details**
 *
 * Returns the ids of the runs that can go on, and the runs that cannot be read: nothing of those is executed, and they keep no other from
 * being restored. No process holds a run. The backup stays as it is.
 *
 * **Errors**
 *
 * - `BackupExists` — there is a file of the new name, and nothing was replaced; choose another name.
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

/** What a check found. */
export interface CheckReport {
  /** Whether nothing is wrong. */
  readonly ok: boolean
  readonly runs: number
  readonly events: number
  readonly requests: number
  /** What is wrong, a sentence each. The first hundred; a last one counts the rest. */
  readonly problems: ReadonlyArray<string>
}

/**
 * Reads every page, run, request, message and grant of a store, and reports what is wrong. It changes nothing, makes no file, and works
 * while others use the store.
 *
 * **When to use**
 *
 * After a disk or a file was damaged, on a backup before you rely on it, and now and then. It reads the whole file, and this
 * process does nothing else while SQLite reads the pages: run it in a process of its own when the store is large.
 *
 * **Errors**
 *
 * A store that is damaged is reported, not failed with.
 *
 * - `RunStoreError` — `CannotOpen` when there is no such file or it may not be read, `StoreBusy` when somebody kept it locked.
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
 * Writes the whole store anew, without gaps, while others have it open.
 *
 * **When to use**
 *
 * After many runs were removed, to make the file smaller. And after a removal when the file must hold no trace of the text, even
 * for who reads its bytes: a removal overwrites the rows, but where SQLite once moved a row to another page, a part of it can
 * have stayed in the unused room of the old page.
 *
 * **Gotchas**
 *
 * Nobody can write meanwhile (reading goes on), it needs as much space again as the store has, and this process does nothing
 * else until it is done: run a large one in a process of its own, when little goes on.
 *
 * **Errors**
 *
 * - `RunStoreError` — `CannotOpen` when there is no such store, `StoreBusy` when others kept writing for 10 seconds, or still
 *   read the old text; `StorageFull`, `StoreUnreadable`. The store is as it was, or is done.
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
