/**
 * Operations on files through the path guard, as promises that reject with the errors of `pathErrors.ts`.
 */
import { randomBytes } from "node:crypto"
import { constants } from "node:fs"
import {
  access,
  type FileHandle,
  link,
  lstat,
  mkdir,
  open,
  opendir,
  rename,
  rm,
  rmdir,
  unlink
} from "node:fs/promises"
import { resolve } from "node:path"
import {
  Changed,
  checkFile,
  type Context,
  type Entry,
  find,
  type Found,
  judge,
  locate,
  type Request,
  withDirectory,
  withEntry
} from "./located.ts"
import { codeOf, denied, FileError } from "./pathErrors.ts"
import { inodeOf, type Own, rootOf } from "./pathRules.ts"
import { findOnly } from "./pinned.ts"

/** The type of an entry of a directory. */
export type FileType = "file" | "directory" | "link" | "other"

/** Facts about a file. */
export interface FileInfo {
  readonly type: FileType
  readonly sizeBytes: number
  /** Permission bits, such as `0o644`. */
  readonly mode: number
  readonly modifiedAt: number
}

const {
  O_CREAT,
  O_DIRECTORY,
  O_EXCL,
  O_NOCTTY = 0,
  O_NOFOLLOW = 0,
  O_NONBLOCK = 0,
  O_RDONLY,
  O_WRONLY
} = constants

/** Opens a regular file for reading. The caller closes it. */
export const openFile = (
  context: Context,
  request: Request
): Promise<{ readonly handle: FileHandle; readonly info: FileInfo }> =>
  withEntry(context, request, async (entry) => {
    const found = await need(context, request, entry)
    try {
      checkFile(context, request, entry, found)
      // Through a descriptor, this is the file that was checked. Through a path, it is compared.
      const flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | (context.byDescriptor ? 0 : O_NOFOLLOW)
      const handle = await open(found.path, flags)
      try {
        const stats = await handle.stat({ bigint: true })
        if (inodeOf(stats) !== inodeOf(found.stats) || !(await entry.directory.isInRoot()))
          throw new Changed()
        checkFile(context, request, entry, { ...found, stats })
        return { handle, info: infoOf(stats) }
      } catch (cause) {
        await handle.close()
        throw cause
      }
    } finally {
      await found.close()
    }
  })

const need = async (context: Context, { given }: Request, entry: Entry): Promise<Found> => {
  const found = await find(context, entry)
  if (found === undefined) throw new FileError({ path: given, reason: "notFound" })
  return found
}

type Stats = Found["stats"]

const infoOf = (stats: Stats): FileInfo => ({
  type: typeOf(stats),
  sizeBytes: Number(stats.size),
  mode: Number(stats.mode & 0o7777n),
  modifiedAt: Number(stats.mtimeMs)
})

const typeOf = (kind: Pick<Stats, "isFile" | "isDirectory" | "isSymbolicLink">): FileType => {
  if (kind.isFile()) return "file"
  if (kind.isDirectory()) return "directory"
  return kind.isSymbolicLink() ? "link" : "other"
}

/** Reads at most `length` bytes from `offset`; fewer at the end of the file. */
export const readAt = async (handle: FileHandle, offset: number, length: number): Promise<Uint8Array> => {
  const bytes = new Uint8Array(length)
  let filled = 0
  while (filled < length) {
    const { bytesRead } = await handle.read(bytes, filled, length - filled, offset + filled)
    if (bytesRead === 0) break
    filled += bytesRead
  }
  return bytes.subarray(0, filled)
}

/** Reads a file that is not larger than a limit. */
export const readWhole = async (
  context: Context,
  request: Request,
  maxBytes: number
): Promise<Uint8Array> => {
  const { handle, info } = await openFile(context, request)
  try {
    if (info.sizeBytes > maxBytes) throw denied(request.given, "tooLarge")
    // One byte more, for a file that grows.
    const bytes = await readAt(handle, 0, Math.min(info.sizeBytes, maxBytes) + 1)
    if (bytes.length <= info.sizeBytes) return bytes
    const rest = await readAt(handle, bytes.length, maxBytes + 1 - bytes.length)
    if (bytes.length + rest.length > maxBytes) throw denied(request.given, "tooLarge")
    return Buffer.concat([bytes, rest])
  } finally {
    await handle.close()
  }
}

/** Describes what a path leads to. */
export const info = async (context: Context, request: Request): Promise<FileInfo> => {
  const place = await locate(context, request)
  const { real, roots } = place
  if (roots.some(({ path }) => path === real))
    return withDirectory(context, request, async ({ self }) =>
      infoOf(await lstat(`${self}/.`, { bigint: true }))
    )
  return withEntry(context, request, async (entry) => {
    const found = await need(context, request, entry)
    await found.close()
    return infoOf(found.stats)
  })
}

/** The names in a directory, in order, and whether there are more. Links are not followed. */
export const names = (context: Context, request: Request, maxEntries: number) =>
  withDirectory(context, request, async ({ self }) => {
    const entries: Array<{ readonly name: string; readonly type: FileType }> = []
    const directory = await opendir(self)
    try {
      for (let entry = await directory.read(); entry !== null; entry = await directory.read()) {
        if (entries.length === maxEntries) return { entries: sorted(entries), isComplete: false }
        entries.push({ name: entry.name, type: typeOf(entry) })
      }
    } finally {
      await directory.close()
    }
    return { entries: sorted(entries), isComplete: true }
  })

const sorted = <A extends { readonly name: string }>(entries: Array<A>): ReadonlyArray<A> =>
  entries.sort((a, b) => (a.name < b.name ? -1 : 1))

/** Replaces the content of a file, or creates it and the directories that it needs. */
export const replace = (
  context: Context,
  request: Request,
  content: Uint8Array,
  { mustBeNew }: { readonly mustBeNew: boolean }
): Promise<void> =>
  withEntry(context, { ...request, makeParents: true }, async (entry) => {
    const { directory, name } = entry
    const before = await find(context, entry)
    try {
      if (before !== undefined) {
        checkFile(context, request, entry, before)
        if (mustBeNew) throw new FileError({ path: request.given, reason: "exists" })
        // A file that may not be written is not replaced, either.
        await access(before.path, constants.W_OK)
      }
      const temporary = directory.at(`.fermata-${randomBytes(8).toString("hex")}.tmp`)
      try {
        await writeNew(temporary, content, before?.stats)
        if (!(await directory.isInRoot())) throw new Changed()
        await (mustBeNew ? link(temporary, directory.at(name)) : rename(temporary, directory.at(name)))
      } finally {
        await rm(temporary, { force: true })
      }
    } finally {
      await before?.close()
    }
  })

/** Writes a new file with the permissions and the owner of the one that it replaces. */
const writeNew = async (path: string, content: Uint8Array, before: Stats | undefined): Promise<void> => {
  const mode = before === undefined ? 0o666 : 0o600
  const handle = await open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode)
  try {
    await handle.writeFile(content)
    if (before !== undefined) {
      const now = await handle.stat({ bigint: true })
      if (now.uid !== before.uid || now.gid !== before.gid)
        // Only a privileged process can give a file away.
        await handle.chown(Number(before.uid), Number(before.gid)).catch(() => undefined)
      await handle.chmod(Number(before.mode & 0o777n))
    }
    await handle.datasync()
  } finally {
    await handle.close()
  }
}

/** Creates a directory and those above it. One that exists is left as it is. */
export const makeDirectory = (context: Context, request: Request): Promise<void> =>
  withEntry(context, { ...request, makeParents: true, isTree: true }, async (entry) => {
    try {
      await mkdir(entry.directory.at(entry.name))
    } catch (cause) {
      if (codeOf(cause) !== "EEXIST") throw cause
      const found = await need(context, request, entry)
      await found.close()
      if (!found.stats.isDirectory()) throw new FileError({ path: request.given, reason: "exists" })
    }
  })

/** Removes an entry: a symbolic link, not the file to which it leads. */
export const remove = (context: Context, request: Request, isRecursive: boolean): Promise<void> =>
  withEntry(context, { ...request, keepsLink: true, isTree: true }, async ({ directory, name, own }) => {
    const path = directory.at(name)
    if (!(await checkName(path, request.given, own)).isDirectory()) return unlink(path)
    if (isRecursive) await removeBelow(context, request.given, own, path, 0)
    await rmdir(path)
  })

/** The kind of a name that is not opened. */
const checkName = async (path: string, given: string, own: Own): Promise<Stats> => {
  const stats = await lstat(path, { bigint: true })
  if (own.inodes.has(inodeOf(stats))) throw denied(given, "own")
  return stats
}

const maxDepth = 200

/** Empties a directory. Each one is opened by its name in the one above it, so that no link is followed. */
const removeBelow = async (
  context: Context,
  given: string,
  own: Own,
  path: string,
  depth: number
): Promise<void> => {
  if (depth > maxDepth) throw new FileError({ path: given, reason: "tooDeep" })
  const handle = context.byDescriptor ? await open(path, findOnly | O_DIRECTORY | O_NOFOLLOW) : undefined
  const self = handle === undefined ? path : `/proc/self/fd/${handle.fd}`
  try {
    const directory = await opendir(self)
    const entries: Array<string> = []
    for await (const { name } of directory) entries.push(name)
    for (const name of entries) {
      const below = `${self}/${name}`
      if (!(await checkName(below, given, own)).isDirectory()) {
        await unlink(below)
        continue
      }
      await removeBelow(context, given, own, below, depth + 1)
      await rmdir(below)
    }
  } finally {
    await handle?.close()
  }
}

/** Renames a file or a directory. A symbolic link is renamed, not the file to which it leads. */
export const move = (context: Context, from: Request, to: Request, mayReplace: boolean): Promise<void> => {
  const whole = { keepsLink: true, isTree: true }
  return withEntry(context, { ...from, ...whole }, async (source) => {
    // What may not be read under its name must not become readable under another one.
    await readable(context, { ...from, ...whole, access: "read" })
    await checkName(source.directory.at(source.name), from.given, source.own)
    await withEntry(context, { ...to, ...whole, makeParents: true }, async (target) => {
      const path = target.directory.at(target.name)
      const existing = await checkName(path, to.given, target.own).catch((cause) => {
        if (codeOf(cause) === "ENOENT") return undefined
        throw cause
      })
      if (existing !== undefined && !mayReplace) throw new FileError({ path: to.given, reason: "exists" })
      await rename(source.directory.at(source.name), path)
    })
  })
}

const readable = async (context: Context, request: Request): Promise<void> => {
  const place = await locate(context, request)
  const root = rootOf(place.roots, place.real)
  const verdict = root === undefined ? undefined : judge(context, request, place, { root, real: place.real })
  if (verdict !== undefined && !(verdict.decision === "ask" && request.approved)) throw verdict.denial
}

/** The place of a path, if its access is allowed without an approval. */
export const allowedPlace = (context: Context, request: Request): Promise<string> =>
  withEntry(context, { ...request, approved: false }, async (entry) => {
    const found = await find(context, entry)
    try {
      if (found !== undefined && !found.stats.isDirectory())
        checkFile(context, { ...request, approved: false }, entry, found)
    } finally {
      await found?.close()
    }
    return resolve(entry.directory.path, entry.name)
  })
