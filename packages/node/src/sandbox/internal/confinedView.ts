/**
 * The part of the machine that commands in a confined sandbox see, as arguments of bubblewrap.
 *
 * The root is read-only. Mounts on top of it hide places and make others writable, the deepest path last, so that a working directory
 * inside of a hidden home is visible. Commands can change the working directory, links included, so each path in it is checked again before
 * each start: a link is never mounted, and nothing is mounted on a link.
 */
import { lstatSync, realpathSync } from "node:fs"
import { readdir, realpath } from "node:fs/promises"
import { join, sep } from "node:path"
import { judge, type Place } from "../../guard/internal/located.ts"
import {
  findOwn,
  parseRules,
  type ParsedRules,
  realRoots,
  type Root,
  rootOf
} from "../../guard/internal/pathRules.ts"
import type { Rules } from "../../guard/PathGuard.ts"
import { placesOfMachine, type Shown } from "./hiddenPlaces.ts"

/** The options of a view: the working directory, the rules of its files, further places to hide, and names to protect. */
export interface ViewOptions {
  readonly workdir: string
  readonly rules: Rules
  readonly hide: ReadonlyArray<string>
  readonly protect: ReadonlyArray<string>
}

/** A view cannot be made, because a directory of the sandbox no longer exists or was replaced by a link. */
export class ViewChanged extends Error {}

/** How deep and how far a directory is searched for credentials when a sandbox is opened. */
const maxDepth = 4
const maxEntries = 4000

/** Directories of others' code, in which files named like credentials are examples and tests. */
const unsearched = new Set([".git", "node_modules"])

type Places = ReadonlyArray<readonly [path: string, shown: Shown]>

export class ConfinedView {
  private readonly rules: ParsedRules
  private readonly roots: ReadonlyArray<Root>
  private readonly ofMachine: Places
  /** Places with credentials below the directories of the rules that were found when the sandbox was opened. */
  private readonly found: ReadonlyArray<string>
  /** The names that commands may not change. */
  private readonly guarded: ReadonlyArray<string>

  private constructor(parts: {
    readonly rules: ParsedRules
    readonly roots: ReadonlyArray<Root>
    readonly ofMachine: Places
    readonly found: ReadonlyArray<string>
    readonly guarded: ReadonlyArray<string>
  }) {
    this.rules = parts.rules
    this.roots = parts.roots
    this.ofMachine = parts.ofMachine
    this.found = parts.found
    this.guarded = parts.guarded
  }

  static async make({ hide, protect, rules, workdir }: ViewOptions): Promise<ConfinedView> {
    const parsed = parseRules(rules)
    const roots = await realRoots(parsed)
    const guarded: Array<string> = []
    // A name that appears later was made by a command, or may be replaced by one with a link at any moment.
    for (const name of protect) {
      const path = join(workdir, name)
      if (typeAt(path) !== undefined) guarded.push(path)
    }
    const found: Array<string> = []
    for (const root of roots) found.push(...(await credentialsBelow(parsed, roots, root)))
    return new ConfinedView({ rules: parsed, roots, ofMachine: placesOfMachine(hide), found, guarded })
  }

  /** The mounts for a command that starts now. Rejects with {@link ViewChanged}. */
  async arguments(): Promise<ReadonlyArray<string>> {
    const places = new Map<string, Shown>(this.ofMachine)
    for (const path of this.rules.own) for (const each of await ownFiles(path)) places.set(each, "hidden")
    for (const path of await this.credentials()) places.set(path, "hidden")
    for (const path of this.guarded) if (typeAt(path) !== undefined) places.set(path, "readOnly")
    for (const { access, path } of this.roots) {
      if (typeAt(path) !== "directory") throw new ViewChanged()
      places.set(path, access === "write" ? "writable" : "readOnly")
    }
    const mounts: Array<string> = []
    const sealed: Array<string> = []
    for (const [path, shown] of [...places].sort(([left], [right]) => depthOf(left) - depthOf(right))) {
      const type = typeAt(path)
      if (type === undefined) continue
      if (shown === "writable") mounts.push("--bind", path, path)
      else if (shown === "readOnly") mounts.push("--ro-bind", path, path)
      else if (type === "file") mounts.push("--ro-bind", "/dev/null", path)
      else {
        mounts.push("--tmpfs", path)
        if (shown === "hidden") sealed.push("--remount-ro", path)
      }
    }
    // Sealed at the end, because mount points are made in them.
    return [...mounts, ...sealed]
  }

  /** Places with credentials: those that were found, and those that have appeared in the directories of the rules themselves. */
  private async credentials(): Promise<ReadonlySet<string>> {
    const paths = new Set(this.found)
    for (const root of this.roots) {
      const names = await readdir(root.path).catch(() => [])
      const place = { roots: this.roots, own: await findOwn(this.rules), real: root.path }
      for (const name of names)
        if (isHidden(this.rules, place, root, join(root.path, name))) paths.add(join(root.path, name))
    }
    return paths
  }
}

const depthOf = (path: string) => path.split(sep).length

/**
 * The type of the file at a path; `undefined` if there is none, or if the path contains a link. Synchronous: a start needs about fifty of
 * these, each of which takes microseconds.
 */
const typeAt = (path: string): "directory" | "file" | undefined => {
  try {
    if (realpathSync.native(path) !== path) return undefined
    return lstatSync(path).isDirectory() ? "directory" : "file"
  } catch {
    return undefined
  }
}

/** The files of Fermata whose names begin with a file's, such as the journal of a database. */
const ownFiles = async (path: string): Promise<ReadonlyArray<string>> => {
  const real = await realpath(path).catch(() => path)
  return ["", "-wal", "-shm", "-journal", ".lock"].map((companion) => real + companion)
}

/** Whether the rules ask about reading a path, or deny it, because of what it holds. */
const isHidden = (rules: ParsedRules, place: Place, root: Root, path: string): boolean => {
  const owner = rootOf(place.roots, path) ?? root
  const verdict = judge(
    { rules, byDescriptor: false },
    { access: "read", given: path, approved: false },
    place,
    {
      root: owner,
      real: path
    }
  )
  return verdict?.denial.reason === "sensitive" || verdict?.denial.reason === "own"
}

const credentialsBelow = async (
  rules: ParsedRules,
  roots: ReadonlyArray<Root>,
  root: Root
): Promise<ReadonlyArray<string>> => {
  const place = { roots, own: await findOwn(rules), real: root.path }
  const found: Array<string> = []
  let pending = [root.path]
  let seen = 0
  for (let depth = 0; depth < maxDepth && pending.length > 0; depth += 1) {
    const next: Array<string> = []
    for (const directory of pending) {
      const entries = await readdir(directory, { withFileTypes: true }).catch(() => [])
      for (const entry of entries) {
        if (entry.isSymbolicLink()) continue
        if ((seen += 1) > maxEntries) return found
        const path = join(directory, entry.name)
        if (isHidden(rules, place, root, path)) found.push(path)
        else if (entry.isDirectory() && !unsearched.has(entry.name)) next.push(path)
      }
    }
    pending = next
  }
  return found
}
