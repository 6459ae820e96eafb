/**
 * Finds the files of a directory and those below, in order, without the ones that ripgrep leaves out: hidden ones, and those that `.gitignore`,
 * `.ignore` and `.rgignore` exclude.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import { type IgnoreRules, ignoreFiles, isIgnored, parseRules } from "./ignoreRules.ts"
import { join } from "./listing.ts"

export interface WalkOptions {
  /** Whether hidden files and ignored ones are found, too; never those of `.git`. */
  readonly isAll: boolean
  /** How many files are found at most. */
  readonly maxFiles: number
}

/** The files that were found. */
export interface Walked {
  /** From the directory that was searched. */
  readonly paths: ReadonlyArray<string>
  /** Whether these are all. */
  readonly isComplete: boolean
  /** How many directories could not be read. */
  readonly unread: number
}

/**
 * Finds the files below a directory, until `isOver` or until `maxFiles` are found. Does not fail: directories that cannot be read are
 * counted.
 */
export const walk = (
  files: FileSystem.FileSystem,
  directory: string,
  { isAll, maxFiles }: WalkOptions,
  isOver: () => boolean
): Effect.Effect<Walked> =>
  Effect.gen(function* () {
    const paths: Array<string> = []
    const base = namesOf(directory)
    const open: Array<{ readonly names: ReadonlyArray<string>; readonly rules: ReadonlyArray<IgnoreRules> }> =
      [{ names: base, rules: isAll ? [] : yield* rulesAbove(files, base) }]
    let unread = 0
    while (open.length > 0) {
      if (isOver() || paths.length >= maxFiles) return { paths: paths.sort(), isComplete: false, unread }
      const { names, rules: above } = open.pop()!
      const at = names.slice(base.length).reduce(join, directory)
      const entries = yield* Effect.catch(files.readDirectoryEntries(at), () => Effect.succeed(undefined))
      if (entries === undefined) {
        unread += 1
        continue
      }
      const present = new Set(isAll ? [] : entries.map(({ name }) => name))
      const texts = yield* textsOf(
        files,
        at,
        ignoreFiles.filter((name) => present.has(name))
      )
      const rules = texts.length === 0 ? above : [...above, parseRules(names, texts)]
      for (const { name, type } of entries) {
        const isDirectory = type === "Directory"
        if (!isDirectory && type !== "File") continue
        if (name === ".git" || (!isAll && name.startsWith("."))) continue
        const path = [...names, name]
        if (!isAll && isIgnored(rules, path, isDirectory)) continue
        if (isDirectory) open.push({ names: path, rules })
        else paths.push(path.slice(base.length).join("/"))
      }
    }
    return { paths: paths.sort(), isComplete: true, unread }
  })

/** The names of a directory from the working directory; none for one that is given in another way. */
const namesOf = (directory: string): ReadonlyArray<string> => {
  const names = directory.split("/").filter((name) => name !== "" && name !== ".")
  return directory.startsWith("/") || names.includes("..") ? [] : names
}

/** The rules of the working directory and of the directories between it and another one. */
const rulesAbove = (
  files: FileSystem.FileSystem,
  names: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<IgnoreRules>> =>
  Effect.forEach(names, (_, depth) => {
    const above = names.slice(0, depth)
    return Effect.map(textsOf(files, above.reduce(join, "."), ignoreFiles), (texts) =>
      parseRules(above, texts)
    )
  })

/** The texts of files; empty for one that cannot be read. */
const textsOf = (
  files: FileSystem.FileSystem,
  directory: string,
  names: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<string>> =>
  Effect.forEach(names, (name) =>
    Effect.catch(files.readFileString(join(directory, name)), () => Effect.succeed(""))
  )
