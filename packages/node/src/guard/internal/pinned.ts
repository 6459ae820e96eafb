/**
 * Directories that stay the same while a path in them is used.
 *
 * On Linux, a directory is opened without access to its content, and the kernel shows where that directory is. Its entries are then used
 * through `/proc/self/fd`, so that no change of a link above them leads elsewhere. On other systems, the path is compared again after an
 * entry was opened: a process that swaps links at the right moments can then still win.
 */
import { constants, existsSync } from "node:fs"
import { open, readlink, realpath, stat } from "node:fs/promises"
import { dirname, join, sep } from "node:path"
import { inodeOf, type Root, rootOf } from "./pathRules.ts"

/** `O_PATH` of Linux, which Node does not name: the file is found, and not opened. Closing it drops no lock of the process. */
export const findOnly = 0o10000000

/** Whether the kernel shows where an open file is. */
export const hasDescriptors: boolean = process.platform === "linux" && existsSync("/proc/self/fd")

/** A directory in one of the roots. */
export interface Pinned {
  readonly root: Root
  /** Its path without symbolic links, as the root names it. */
  readonly path: string
  /** A path to use the directory by. */
  readonly self: string
  /** A path to use an entry by. The entry may be a symbolic link. */
  readonly at: (name: string) => string
  /** Whether the directory still is in the root. */
  readonly isInRoot: () => Promise<boolean>
  readonly close: () => Promise<void>
}

/** Opens a directory; `undefined` if it is in none of the roots. */
export const pin = async (
  roots: ReadonlyArray<Root>,
  path: string,
  byDescriptor: boolean
): Promise<Pinned | undefined> => (byDescriptor ? pinDescriptor(roots, path) : pinPath(roots, path))

const pinDescriptor = async (roots: ReadonlyArray<Root>, path: string): Promise<Pinned | undefined> => {
  const handle = await open(path, findOnly | constants.O_DIRECTORY)
  const self = `/proc/self/fd/${handle.fd}`
  try {
    const placed = await placeOf(roots, await readlink(self), (levels) => self + "/..".repeat(levels))
    if (placed !== undefined)
      return {
        ...placed,
        self,
        at: (name) => `${self}/${name}`,
        isInRoot: async () => rootOf([placed.root], await readlink(self)) !== undefined || placed.isRenamed,
        close: () => handle.close()
      }
  } catch (cause) {
    await handle.close()
    throw cause
  }
  await handle.close()
  return undefined
}

const pinPath = async (roots: ReadonlyArray<Root>, path: string): Promise<Pinned | undefined> => {
  const self = await realpath(path)
  // Fails if it is no directory.
  const inode = inodeOf(await stat(self + sep, { bigint: true }))
  const placed = await placeOf(roots, self, (levels) => ancestor(self, levels))
  if (placed === undefined) return undefined
  return {
    ...placed,
    self,
    at: (name) => join(self, name),
    isInRoot: async () =>
      (await realpath(self)) === self && inodeOf(await stat(self, { bigint: true })) === inode,
    close: () => Promise.resolve()
  }
}

const ancestor = (path: string, levels: number): string =>
  levels === 0 ? path : ancestor(dirname(path), levels - 1)

/**
 * The root of a directory and its path in it. A file system that ignores case may give the directories above it other names than the root
 * has, so they are compared by their inodes, too.
 */
const placeOf = async (roots: ReadonlyArray<Root>, path: string, above: (levels: number) => string) => {
  const root = rootOf(roots, path)
  if (root !== undefined) return { root, path, isRenamed: false }
  const names = path.split(sep)
  for (const candidate of roots) {
    const inode = inodeOf(await stat(candidate.path, { bigint: true }))
    for (let levels = 0; levels < names.length; levels += 1) {
      if (inodeOf(await stat(above(levels), { bigint: true })) === inode) {
        const below = levels === 0 ? [] : names.slice(-levels)
        return { root: candidate, path: join(candidate.path, ...below), isRenamed: true }
      }
    }
  }
  return undefined
}
