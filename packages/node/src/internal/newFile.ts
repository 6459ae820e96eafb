/**
 * New files: created under a temporary name, and renamed to their own name when they are whole.
 *
 * A database that a connection has open must never be opened here (see `sqlite/file.ts`).
 */
import { link, open, rename, rm } from "node:fs/promises"

/** Creates an empty file; fails with `EEXIST` when the name is taken. */
export const createEmpty = async (path: string, mode: number): Promise<void> => {
  await (await open(path, "wx", mode)).close()
}

/** Gives a file a name in its folder, without replacing a file; false when the name is taken. The old name may remain. */
export const nameIfFree = async (from: string, to: string): Promise<boolean> => {
  try {
    await link(from, to)
    return true
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false
  }
  // A file system without links: an empty file reserves the name and is then replaced.
  try {
    await createEmpty(to, 0o600)
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false
    throw error
  }
  try {
    await rename(from, to)
    return true
  } catch (error) {
    await rm(to, { force: true })
    throw error
  }
}

/** The code of an error of the file system; `undefined` for another error. */
export const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined
