/**
 * Backs up a SQLite store while other processes use it.
 */
import { randomUUID } from "node:crypto"
import { rm, stat } from "node:fs/promises"
import { backup as copyDatabase, type DatabaseSync } from "node:sqlite"
import type { RunStoreError } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { BackupExists } from "../BackupExists.ts"
import { codeOf, createEmpty, nameIfFree } from "../newFile.ts"
import { cannotOpen, openExisting, thrown } from "./file.ts"

/** Copies a store into a new file, in its state at one moment. */
export const backup = (options: {
  /** The store. */
  readonly filename: string
  /** The new file. */
  readonly to: string
}): Effect.Effect<void, RunStoreError.RunStoreError | BackupExists> =>
  Effect.scoped(
    Effect.flatMap(openExisting("backup", options.filename), (source) =>
      writeNew("backup", options.to, (partial) => copyInto("backup", source, options.filename, partial))
    )
  ).pipe(Effect.uninterruptible)

/** Writes a new file under a temporary name, and renames it when it is whole. Removes a partial file. */
export const writeNew = <A, E, R>(
  operation: string,
  to: string,
  write: (partial: string) => Effect.Effect<A, E, R>
): Effect.Effect<A, E | RunStoreError.RunStoreError | BackupExists, R | Scope.Scope> =>
  Effect.gen(function* () {
    if (yield* exists(to)) return yield* new BackupExists()
    const partial = `${to}.${randomUUID()}.part`
    // Without the folder there is nothing to remove; the reason is reported below.
    yield* Effect.addFinalizer(() =>
      Effect.promise(() =>
        Promise.allSettled(
          ["", "-journal", "-wal", "-shm"].map((end) => rm(`${partial}${end}`, { force: true }))
        )
      )
    )
    const written = yield* write(partial)
    const placed = yield* attempt(operation, () => nameIfFree(partial, to))
    return placed ? written : yield* new BackupExists()
  })

/** Copies a store into a new file with the mode of the store's file, within the umask. */
export const copyInto = (operation: string, source: DatabaseSync, from: string, to: string) =>
  attempt(operation, async () => {
    const { mode } = await stat(from)
    await createEmpty(to, mode & 0o777)
    await copyDatabase(source, to, { rate: allPages })
  })

/** Copies in one step. A copy in several steps starts over when another connection writes in between. */
const allPages = 0x7fffffff

/** Runs an operation on files; its failures are `RunStoreError`s. */
const attempt = <A>(operation: string, act: () => Promise<A>) =>
  Effect.tryPromise({
    try: act,
    catch: (error) =>
      folderProblems.has(codeOf(error) ?? "")
        ? cannotOpen(operation, "the folder of the new file does not exist or cannot be written.")
        : thrown(operation)(error)
  })

const folderProblems: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR", "EACCES", "EPERM", "EROFS"])

/** Whether a file of this name exists. */
const exists = (path: string): Effect.Effect<boolean> =>
  Effect.promise(() =>
    stat(path).then(
      () => true,
      () => false
    )
  )
