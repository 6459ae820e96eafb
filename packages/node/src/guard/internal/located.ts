/**
 * Resolves a given path to an open directory and a name in it, and decides about it by the rules.
 */
import { constants } from "node:fs"
import { lstat, mkdir, open } from "node:fs/promises"
import { basename, dirname, resolve } from "node:path"
import { codeOf, denied, FileError, PathDenied } from "./pathErrors.ts"
import {
  type Access,
  findOwn,
  inodeOf,
  isSystem,
  judgeNames,
  type Own,
  type ParsedRules,
  realRoots,
  type Root,
  rootOf,
  type Verdict
} from "./pathRules.ts"
import { findOnly, pin, type Pinned } from "./pinned.ts"
import { malformed, realPathOf } from "./realPath.ts"

/** The rules, and what they need of the machine. */
export interface Context {
  readonly rules: ParsedRules
  /** Whether open directories are used; see `pinned.ts`. */
  readonly byDescriptor: boolean
}

/** One access to a path. */
export interface Request {
  readonly given: string
  readonly access: Access
  /** Whether a person has allowed it. */
  readonly approved: boolean
  /** Whether a symbolic link at the end is followed. Default: it is. */
  readonly keepsLink?: boolean
  /** Whether the access includes everything in a directory. Default: it does not. */
  readonly isTree?: boolean
}

/** The place to which a path leads at this moment, with the rules' directories at this moment. */
export interface Place {
  readonly roots: ReadonlyArray<Root>
  readonly own: Own
  readonly real: string
}

/** Resolves a path. Throws a refusal that does not depend on the place. */
export const locate = async ({ rules }: Context, request: Request): Promise<Place> => {
  const { given, keepsLink = false } = request
  const problem = malformed(given)
  if (problem !== undefined) throw problem
  const path = resolve(rules.base, given)
  const [roots, own] = [await realRoots(rules), await findOwn(rules)]
  // Refused before it is resolved, because links below `/proc` can lead anywhere.
  if (isSystem(path, rootOf(rules.roots, path))) throw denied(given, "system")
  const real = await realUnless(given, path, keepsLink).catch((cause) => {
    // The error must not reveal whether a file outside exists.
    const isInside = rootOf([...rules.roots, ...roots], path) !== undefined
    throw isInside || cause instanceof PathDenied ? cause : denied(given, "outside")
  })
  if (isSystem(real, rootOf(roots, real))) throw denied(given, "system")
  return { roots, own, real }
}

const realUnless = async (given: string, path: string, keepsLink: boolean): Promise<string> => {
  if (!keepsLink) return realPathOf(path, given)
  const parent = await realPathOf(dirname(path), given)
  return resolve(parent, basename(path))
}

/** The decision about a place in a root. */
export const judge = (
  { rules }: Context,
  { access, given, isTree = false }: Request,
  { own }: Place,
  target: { readonly root: Root; readonly real: string }
): Verdict | undefined => {
  const { real, root } = target
  if (own.has(real, root) || (isTree && own.isIn(real)))
    return { decision: "deny", denial: denied(given, "own") }
  return judgeNames(rules, given, { root, real, access, isTree })
}

const check = (
  context: Context,
  request: Request,
  place: Place,
  target: { readonly root: Root; readonly real: string }
) => {
  const verdict = judge(context, request, place, target)
  if (verdict === undefined || (verdict.decision === "ask" && request.approved)) return
  throw verdict.denial
}

/** An entry of a directory that is open. */
export interface Entry {
  readonly directory: Pinned
  readonly name: string
  readonly own: Own
}

/** How often an access is repeated if its path changes meanwhile. */
const attempts = 8

/** Marks a path that was changed between its resolution and its use. */
export class Changed extends Error {}

/** Uses the directory of a path, after the rules have allowed the access. `makeParents` creates the directories that are missing. */
export const withEntry = async <A>(
  context: Context,
  request: Request & { readonly makeParents?: boolean },
  use: (entry: Entry) => Promise<A>
): Promise<A> => {
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const place = await locate(context, request)
    const expected = rootOf(place.roots, place.real)
    if (expected !== undefined) {
      if (place.real === expected.path && rootOf(place.roots, dirname(place.real)) === undefined)
        throw request.access === "read"
          ? new FileError({ path: request.given, reason: "isDirectory" })
          : denied(request.given, "root")
      // Before anything is created, and before a missing directory is reported.
      check(context, request, place, { root: expected, real: place.real })
    }
    const directory = await parentOf(context, request, place)
    try {
      const name = basename(place.real)
      check(context, request, place, { root: directory.root, real: resolve(directory.path, name) })
      return await use({ directory, name, own: place.own })
    } catch (cause) {
      if (!(cause instanceof Changed)) throw cause
    } finally {
      await directory.close()
    }
  }
  throw denied(request.given, "changed")
}

/** Uses a directory itself, after the rules have allowed the access. */
export const withDirectory = async <A>(
  context: Context,
  request: Request,
  use: (directory: Pinned) => Promise<A>
): Promise<A> => {
  const place = await locate(context, request)
  const directory = await pinIn(context, request, place, place.real)
  try {
    check(context, request, place, { root: directory.root, real: directory.path })
    return await use(directory)
  } finally {
    await directory.close()
  }
}

const pinIn = async (
  context: Context,
  { given }: Request,
  { roots }: Place,
  path: string
): Promise<Pinned> => {
  try {
    const directory = await pin(roots, path, context.byDescriptor)
    if (directory !== undefined) return directory
  } catch (cause) {
    // Outside of the roots, a missing directory and one that may not be used have the same error as any other.
    if (rootOf(roots, path) !== undefined || codeOf(cause) === undefined) throw cause
  }
  throw denied(given, "outside")
}

const parentOf = async (
  context: Context,
  request: Request & { readonly makeParents?: boolean },
  place: Place
): Promise<Pinned> => {
  const missing: Array<string> = []
  let path = dirname(place.real)
  let directory: Pinned | undefined
  while (directory === undefined) {
    try {
      directory = await pinIn(context, request, place, path)
    } catch (cause) {
      if (request.makeParents !== true || codeOf(cause) !== "ENOENT" || path === dirname(path)) throw cause
      missing.unshift(basename(path))
      path = dirname(path)
    }
  }
  for (const name of missing) {
    const parent: Pinned = directory
    try {
      await mkdir(parent.at(name)).catch((cause) => {
        if (codeOf(cause) !== "EEXIST") throw cause
      })
      // A link that took the place of the new directory leads to another one, which is checked like this one.
      const next = await pin(place.roots, parent.at(name), context.byDescriptor)
      if (next === undefined) throw denied(request.given, "outside")
      directory = next
    } finally {
      await parent.close()
    }
  }
  return directory
}

/** An entry of a directory with its facts, found without opening its content. `close` releases it. */
export interface Found {
  readonly stats: Awaited<ReturnType<typeof statsOf>>
  /** A path to open the same file by. */
  readonly path: string
  readonly close: () => Promise<void>
}

const statsOf = (path: string) => lstat(path, { bigint: true })

/** Finds the file of an entry; `undefined` if there is none. A symbolic link is `Changed`: paths are resolved before. */
export const find = async (
  { byDescriptor }: Context,
  { directory, name }: Entry
): Promise<Found | undefined> => {
  const path = directory.at(name)
  try {
    if (!byDescriptor) {
      const stats = await statsOf(path)
      if (stats.isSymbolicLink()) throw new Changed()
      return { stats, path, close: () => Promise.resolve() }
    }
    const handle = await open(path, findOnly | constants.O_NOFOLLOW)
    const stats = await handle.stat({ bigint: true })
    if (!stats.isSymbolicLink())
      return { stats, path: `/proc/self/fd/${handle.fd}`, close: () => handle.close() }
    await handle.close()
    throw new Changed()
  } catch (cause) {
    if (codeOf(cause) === "ENOENT") return undefined
    throw cause
  }
}

/** Refuses everything except regular files, files with several names unless the rules allow them, and the files of Fermata. */
export const checkFile = (
  { rules }: Context,
  { approved, given }: Request,
  { own }: Entry,
  { stats }: Found
) => {
  if (own.inodes.has(inodeOf(stats))) throw denied(given, "own")
  if (stats.isDirectory()) throw new FileError({ path: given, reason: "isDirectory" })
  if (!stats.isFile()) throw denied(given, "special")
  if (stats.nlink <= 1n || rules.hardLinks === "allow" || (rules.hardLinks === "ask" && approved)) return
  throw denied(given, "hardLink", rules.hardLinks === "ask")
}
