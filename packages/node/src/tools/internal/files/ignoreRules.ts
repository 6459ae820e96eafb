/**
 * The rules of `.gitignore`, `.ignore` and `.rgignore` files, as gitignore(5) describes them.
 */
import { matchesGlob, parseGlob, type Segment } from "./globs.ts"

interface Rule {
  readonly pattern: ReadonlyArray<Segment>
  readonly isNegated: boolean
  readonly isDirectoryOnly: boolean
}

/** The rules of one directory. Later ones take precedence. */
export interface IgnoreRules {
  /** The names of the directory, from the one at which the search starts. */
  readonly directory: ReadonlyArray<string>
  readonly rules: ReadonlyArray<Rule>
}

/** The names of the files with rules. Those of later files take precedence. */
export const ignoreFiles = [".gitignore", ".ignore", ".rgignore"]

/** Parses the text of files with rules, in the order of {@link ignoreFiles}. */
export const parseRules = (directory: ReadonlyArray<string>, texts: ReadonlyArray<string>): IgnoreRules => ({
  directory,
  rules: texts.flatMap((text) => text.split("\n").flatMap((line) => parseRule(line) ?? []))
})

const parseRule = (given: string): Rule | undefined => {
  // Spaces at the end count only after a backslash.
  const line = given.replace(/\r$/, "").replace(/(?<!\\)[ ]+$/, "")
  if (line === "" || line.startsWith("#")) return undefined
  const isNegated = line.startsWith("!")
  const body = isNegated ? line.slice(1) : line
  const isDirectoryOnly = body.endsWith("/")
  const path = isDirectoryOnly ? body.slice(0, -1) : body
  if (path === "") return undefined
  // A pattern with a slash before its end is for paths from its directory, another one for names at any depth.
  const isAnchored = path.includes("/")
  const inside = path.startsWith("/") ? path.slice(1) : path
  // What is in a directory, and not the directory itself.
  const pattern = parseGlob(inside.endsWith("/**") ? `${inside}/*` : inside)
  if (pattern === undefined) return undefined
  return { pattern: isAnchored ? pattern : ["names", ...pattern], isNegated, isDirectoryOnly }
}

/** Whether the rules of the directories above an entry ignore it. Directories above it are not ignored themselves. */
export const isIgnored = (
  all: ReadonlyArray<IgnoreRules>,
  names: ReadonlyArray<string>,
  isDirectory: boolean
): boolean => {
  // The rules of deeper directories come later.
  for (const { directory, rules } of all.toReversed()) {
    const inside = names.slice(directory.length)
    const rule = rules.findLast(
      ({ isDirectoryOnly, pattern }) => (isDirectory || !isDirectoryOnly) && matchesGlob(pattern, inside)
    )
    if (rule !== undefined) return !rule.isNegated
  }
  return false
}
