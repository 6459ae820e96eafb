import { randomUUID } from "node:crypto"
/**
 * A copy of a SQLite store that is taken while others work on it.
 */
import { rm, stat } from "node:fs/promises"
import { backup as copyDatabase } from "node:sqlite"
import type { RunStoreError } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import { BackupExists } from "../BackupExists.ts"
import { codeOf, createEmpty, nameIfFree } from "../newFile.ts"
import { cannotOpen, openExisting, thrown } from "./file.ts"

/** Copies a store into a new file, as it was at one moment. */
export const backup = (options: {
  /** The store. */
  readonly filename: string
  /** The new file. */
  readonly to: string
}): Effect.Effect<void, RunStoreError.RunStoreError | BackupExists> =>
  Effect.scoped(
    Effect.gen(function* () {
      const source = yield* openExisting("backup", options.filename)
      if (yield* exists(options.to)) return yield* new BackupExists()
      const partial = `${options.to}.${randomUUID()}.part`
      // Where the folder is none, there is nothing to remove, and the reason is reported below.
      yield* Effect.addFinalizer(() =>
        Effect.promise(() =>
          Promise.allSettled([rm(partial, { force: true }), rm(`${partial}-journal`, { force: true })])
        )
      )
      yield* attempt("backup", async () => {
        const { mode } = await stat(options.filename)
        await createEmpty(partial, mode & 0o777)
      })
      yield* attempt("backup", () => copyDatabase(source, partial, { rate: allPages }))
      const placed = yield* attempt("backup", () => nameIfFree(partial, options.to))
      if (!placed) return yield* new BackupExists()
    })
  ).pipe(Effect.uninterruptible)

/** At once: a copy in several steps starts over whenever another connection writes in between. */
export const allPages = 0x7fffffff

/** Something with files; its failures in words. */
export const attempt = <A>(operation: string, act: () => Promise<A>) =>
  Effect.tryPromise({
    try: act,
    catch: (error) =>
      folderProblems.has(codeOf(error) ?? "")
        ? cannotOpen(operation, "the folder of the new file does not exist or cannot be written.")
        : thrown(operation)(error)
  })

const folderProblems: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR", "EACCES", "EPERM", "EROFS"])

/** Whether there is a file of this name. */
export const exists = (path: string): Effect.Effect<boolean> =>
  Effect.promise(() =>
    stat(path).then(
      () => true,
      () => false
    )
  )
