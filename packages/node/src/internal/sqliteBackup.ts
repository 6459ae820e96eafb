/**
 * A copy of a SQLite store that is taken while others work on it.
 */
import { constants } from "node:fs"
import { copyFile, link, open, rm, stat } from "node:fs/promises"
import { randomUUID } from "node:crypto"
import { backup as copyDatabase } from "node:sqlite"
import * as Effect from "effect/Effect"
import type { RunStoreError } from "@fermata/sdk/store"
import { BackupExists } from "./BackupExists.ts"
import { cannotOpen, openExisting, thrown } from "./sqliteFile.ts"

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
      yield* Effect.addFinalizer(() =>
        Effect.promise(async () => {
          await rm(partial, { force: true })
          await rm(`${partial}-journal`, { force: true })
        })
      )
      yield* attempt(async () => {
        const { mode } = await stat(options.filename)
        await (await open(partial, "wx", mode & 0o777)).close()
      })
      // All pages at once: a copy in several steps starts over whenever somebody writes in between.
      yield* attempt(() => copyDatabase(source, partial, { rate: allPages }))
      const placed = yield* attempt(() => place(partial, options.to))
      if (!placed) return yield* new BackupExists()
    })
  ).pipe(Effect.uninterruptible)

const allPages = 0x7fffffff

/** Gives the copy its name, unless that is taken. A link never replaces a file; some file systems have none. */
const place = async (partial: string, to: string): Promise<boolean> => {
  try {
    await link(partial, to).catch((error: unknown) => {
      if (codeOf(error) === "EEXIST") throw error
      return copyFile(partial, to, constants.COPYFILE_EXCL)
    })
    return true
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false
    throw error
  }
}

const attempt = <A>(act: () => Promise<A>) =>
  Effect.tryPromise({
    try: act,
    catch: (error) =>
      folderProblems.has(codeOf(error) ?? "")
        ? cannotOpen("backup", "the folder of the backup does not exist or cannot be written.")
        : thrown("backup")(error)
  })

const folderProblems: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR", "EACCES", "EPERM", "EROFS"])

const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined

const exists = (path: string): Effect.Effect<boolean> =>
  Effect.promise(() =>
    stat(path).then(
      () => true,
      () => false
    )
  )
