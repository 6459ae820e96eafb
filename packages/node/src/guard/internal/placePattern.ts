/**
 * Patterns of places in a file system, and the comparison of a path with them.
 *
 * A pattern consists of names that follow each other, such as `.git` or `.github/workflows`; `*` stands for any characters of one name. It
 * covers the places with these names at any depth and, if it is deep, everything below them. A pattern that begins with `/` or `~/` covers one place.
 *
 * Names are compared as the least strict file system and program would: without case, compatibility forms, invisible characters, trailing
 * dots and spaces, and streams of NTFS. A path that only looks like a place is therefore treated as that place.
 */

/** A pattern in parts, each in the form in which names are compared. */
export interface PlacePattern {
  readonly anchor: "anywhere" | "root" | "home"
  readonly names: ReadonlyArray<string>
  /** Whether the pattern also covers what is below its place. */
  readonly isDeep: boolean
}

/** Parses a pattern. By default, it also covers everything below its place. */
export const parsePattern = (pattern: string, isDeep = true): PlacePattern => ({
  isDeep,
  anchor: pattern.startsWith("/") ? "root" : pattern.startsWith("~/") ? "home" : "anywhere",
  names: comparedNames(pattern.startsWith("~/") ? pattern.slice(2) : pattern)
})

/** The names of a path in the form in which they are compared. Both `/` and `\` separate names. */
export const comparedNames = (path: string): ReadonlyArray<string> =>
  path
    .split(/[/\\]/)
    .map(comparedName)
    .filter((name) => name !== "" && name !== ".")

const invisible = /\p{Default_Ignorable_Code_Point}/gu

const comparedName = (name: string): string => {
  if (name === ".." || name === ".") return name
  const plain = name.normalize("NFKC").replaceAll(invisible, "").toLowerCase()
  const stream = plain.indexOf(":", 1)
  const named = withoutTail(stream === -1 ? plain : plain.slice(0, stream))
  // The short name that Windows gives to `.git`.
  return /^git~\d+$/.test(named) ? ".git" : named
}

/** Windows ignores dots and spaces at the end of a name. */
const withoutTail = (name: string): string => {
  let end = name.length
  while (end > 0 && (name[end - 1] === "." || name[end - 1] === " ")) end -= 1
  return name.slice(0, end)
}

/** Whether the names of a path are the place of a pattern, or below it if the pattern is deep. */
export const covers = (pattern: PlacePattern, names: ReadonlyArray<string>): boolean =>
  starts(pattern, names).some(
    (start) =>
      (pattern.isDeep || start + pattern.names.length === names.length) &&
      pattern.names.every((glob, at) => matchesName(glob, names[start + at]))
  )

/** Whether a directory with these names can contain the place of a pattern because of its own name. */
export const leadsTo = (pattern: PlacePattern, names: ReadonlyArray<string>): boolean =>
  starts(pattern, names).some((start) => {
    const shared = names.length - start
    return (
      shared < pattern.names.length &&
      pattern.names.slice(0, shared).every((glob, at) => matchesName(glob, names[start + at]))
    )
  })

const starts = ({ anchor }: PlacePattern, names: ReadonlyArray<string>): ReadonlyArray<number> =>
  anchor === "anywhere" ? [...names.keys()] : [0]

/** Compares a name with a glob in linear time for each `*`. */
const matchesName = (glob: string, name: string | undefined): boolean => {
  if (name === undefined) return false
  const [first = "", ...others] = glob.split("*")
  const last = others.pop()
  if (last === undefined) return glob === name
  if (!name.startsWith(first) || !name.endsWith(last) || name.length < first.length + last.length)
    return false
  let at = first.length
  for (const part of others) {
    const found = name.indexOf(part, at)
    if (found === -1) return false
    at = found + part.length
  }
  return at <= name.length - last.length
}
