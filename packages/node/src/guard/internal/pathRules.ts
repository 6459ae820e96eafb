/**
 * Rules about paths, and their decision about a path without symbolic links. The only file access is a lookup of the inodes of Fermata's
 * own files.
 */
import { lstat, realpath, stat } from "node:fs/promises"
import { homedir } from "node:os"
import { basename, dirname, join, relative, resolve, sep } from "node:path"
import { executedBelow, executedBy } from "./executed.ts"
import { denied, type PathDenied } from "./pathErrors.ts"
import { comparedNames, covers, leadsTo, parsePattern, type PlacePattern } from "./placePattern.ts"
import { credentialPatterns, examplePatterns } from "./sensitive.ts"

/** The kinds of access. Removing, renaming and creating a directory are writes. */
export type Access = "read" | "write"

/** A rule that asks about a place or refuses it, at any depth and with everything below it. */
export interface Place {
  /**
   * Names that follow each other, such as `.aws` or `.docker/config.json`; `*` stands for any characters of one name. A pattern that begins
   * with `/` or `~/` names one place of the machine. Any other pattern is compared with the names of a path relative to its directory.
   */
  readonly pattern: string
  /** Default: both. */
  readonly access?: Access
  readonly decision: "ask" | "deny"
  /** Patterns of places that this one does not cover. */
  readonly except?: ReadonlyArray<string>
}

/** The rules of `PathGuard`: the paths that tools may use, those that ask, and those that are refused. */
export interface Rules {
  /** Directories whose files may be read and changed. A relative path is resolved against the first of them. */
  readonly write?: ReadonlyArray<string>
  /** Directories whose files may be read. */
  readonly read?: ReadonlyArray<string>
  /** The places that ask or are refused; the strictest one that covers a path decides. Replaces the default, `credentials`. */
  readonly places?: ReadonlyArray<Place>
  /**
   * Files and directories of Fermata itself, such as the store's file, a policy or an audit log. They are never opened, even under another
   * name. A file includes those whose names begin with its name, such as `fermata.db-wal`. `fermata.db` and `.fermata` are always among
   * them.
   */
  readonly own?: ReadonlyArray<string>
  /**
   * Whether a file with several names may be used: one of them may be outside of the directories. Default: `deny`. Package managers such as
   * pnpm install files in this way: with `deny`, such files cannot be read.
   */
  readonly hardLinks?: "allow" | "ask" | "deny"
  /** The largest file that is read as a whole, in bytes. Default: 10 MiB. */
  readonly maxBytes?: number
}

/** Places with credentials: their use asks. */
export const credentials: ReadonlyArray<Place> = credentialPatterns.map((pattern) => ({
  pattern,
  decision: "ask",
  except: examplePatterns
}))

interface ParsedPlace {
  readonly pattern: PlacePattern
  readonly except: ReadonlyArray<PlacePattern>
  readonly access: Access | undefined
  readonly decision: "ask" | "deny"
}

/** A directory of the rules, without symbolic links. */
export interface Root {
  readonly path: string
  readonly access: Access
}

/** Rules in the form in which paths are compared with them. */
export interface ParsedRules {
  readonly base: string
  readonly roots: ReadonlyArray<Root>
  readonly places: ReadonlyArray<ParsedPlace>
  readonly own: ReadonlyArray<string>
  readonly hardLinks: "allow" | "ask" | "deny"
  readonly maxBytes: number
}

export const parseRules = (rules: Rules): ParsedRules => {
  const { hardLinks = "deny", maxBytes = 10 * 1024 * 1024, own = [], places = credentials } = rules
  const roots = [
    ...(rules.write ?? []).map((path): Root => ({ path: resolve(path), access: "write" })),
    ...(rules.read ?? []).map((path): Root => ({ path: resolve(path), access: "read" }))
  ]
  return {
    base: roots[0]?.path ?? process.cwd(),
    roots,
    places: places.map(({ access, decision, except = [], pattern }) => ({
      pattern: parsePattern(pattern),
      except: except.map((each) => parsePattern(each)),
      access,
      decision
    })),
    own: own.map((path) => resolve(path)),
    hardLinks,
    maxBytes
  }
}

/** A refusal by the rules, and whether an approval lifts it. */
export interface Verdict {
  readonly decision: "ask" | "deny"
  readonly denial: PathDenied
}

/** The directory that contains a path without symbolic links; one that may be written before one that may be read. */
export const rootOf = (roots: ReadonlyArray<Root>, real: string): Root | undefined =>
  roots.find(({ access, path }) => access === "write" && contains(path, real)) ??
  roots.find(({ path }) => contains(path, real))

/** Whether a directory is a path's, or the path itself. */
const contains = (directory: string, path: string): boolean =>
  path === directory || path.startsWith(directory.endsWith(sep) ? directory : directory + sep)

const systemDirectories = ["/proc", "/sys", "/dev"]

/** Whether a path is in a directory of the kernel, and its root is not. */
export const isSystem = (real: string, root: Root | undefined): boolean =>
  process.platform !== "win32" &&
  systemDirectories.some(
    (system) => contains(system, real) && (root === undefined || !contains(system, root.path))
  )

/** Whether an access to a place inside of a root asks or is refused because of its names, and why. */
export const judgeNames = (
  rules: ParsedRules,
  given: string,
  target: { readonly root: Root; readonly real: string; readonly access: Access; readonly isTree?: boolean }
): Verdict | undefined => {
  const { access, isTree = false, real, root } = target
  if (access === "write" && root.access === "read") return deny(given, "readOnly")
  const inside = comparedNames(relative(root.path, real))
  // A path through a link is judged by its own names, too.
  const lexical = resolve(rules.base, given)
  const asGiven = comparedNames(relative(rootOf(rules.roots, lexical)?.path ?? rules.base, lexical))
  const whole = comparedNames(real)
  const home = relative(homedir(), real)
  const fromHome = home.startsWith("..") ? undefined : comparedNames(home)
  let asks = false
  for (const place of rules.places) {
    if (place.access !== undefined && place.access !== access) continue
    const meets = (pattern: PlacePattern) => {
      if (pattern.anchor === "root") return covers(pattern, whole)
      if (pattern.anchor === "home") return fromHome !== undefined && covers(pattern, fromHome)
      return [inside, asGiven].some((names) => covers(pattern, names) || (isTree && leadsTo(pattern, names)))
    }
    if (!meets(place.pattern) || place.except.some(meets)) continue
    if (place.decision === "deny") return deny(given, "sensitive")
    asks = true
  }
  if (access === "write") {
    const executed = isTree ? executedBelow : executedBy
    if (executed(inside) !== undefined || executed(asGiven) !== undefined) return ask(given, "executedLater")
  }
  return asks ? ask(given, "sensitive") : undefined
}

const deny = (path: string, reason: PathDenied["reason"]): Verdict => ({
  decision: "deny",
  denial: denied(path, reason)
})

const ask = (path: string, reason: PathDenied["reason"]): Verdict => ({
  decision: "ask",
  denial: denied(path, reason, true)
})

/** The files of Fermata as they are now. */
export interface Own {
  /** Whether a path in a root is one of them or in one of them, by its name. */
  readonly has: (real: string, root: Root) => boolean
  /** Whether one of them is in a directory. */
  readonly isIn: (directory: string) => boolean
  readonly inodes: ReadonlySet<string>
}

const ownNames = /\/(\.fermata\/|fermata\.db[/.-])/
const companions = ["", "-wal", "-shm", "-journal", ".lock"]

/** Finds the files of Fermata. They may be created or replaced at any time, so it is done for each access. */
export const findOwn = async (rules: ParsedRules): Promise<Own> => {
  const inodes = new Set<string>()
  const places: Array<string> = []
  for (const path of rules.own) {
    for (const companion of companions) {
      const found = await stat(path + companion, { bigint: true }).catch(() => undefined)
      if (found !== undefined) inodes.add(inodeOf(found))
    }
    const real = await realpath(path).catch(async () =>
      join(await realpath(dirname(path)).catch(() => dirname(path)), basename(path))
    )
    places.push(comparedPath(real), comparedPath(path))
  }
  return {
    has: (real, root) => {
      const names = `${comparedPath(real)}/`
      const inside = `${comparedPath(relative(root.path, real))}/`
      return (
        places.some((place) => names.startsWith(place) && /^[/.-]/.test(names.slice(place.length))) ||
        ownNames.test(inside)
      )
    },
    isIn: (directory) => places.some((place) => place.startsWith(`${comparedPath(directory)}/`)),
    inodes
  }
}

const comparedPath = (path: string) => `/${comparedNames(path).join("/")}`

/** The identity of a file on this machine. */
export const inodeOf = (stats: { readonly dev: bigint; readonly ino: bigint }): string =>
  `${stats.dev}:${stats.ino}`

/** The directories of the rules without symbolic links; one that does not exist contains nothing. */
export const realRoots = async (rules: ParsedRules): Promise<ReadonlyArray<Root>> => {
  const roots: Array<Root> = []
  for (const { access, path } of rules.roots) {
    const real = await realpath(path).catch(() => undefined)
    if (real !== undefined && (await lstat(real)).isDirectory()) roots.push({ path: real, access })
  }
  return roots
}
