/**
 * Glob patterns for paths, compared in time proportional to the product of both lengths, so that no pattern of a model takes long.
 *
 * `*` stands for any characters of a name, `?` for one, `[abc]`, `[a-z]` and `[!abc]` for one of some, and `**` for any number of names. `\` takes the
 * next character as it is.
 */

/** One element of the pattern of a name. */
type Element =
  | { readonly kind: "any" }
  | { readonly kind: "one" }
  | { readonly kind: "literal"; readonly character: string }
  | {
      readonly kind: "set"
      readonly isNegated: boolean
      readonly ranges: ReadonlyArray<readonly [string, string]>
    }

/** The pattern of one name, or `**`. */
export type Segment = ReadonlyArray<Element> | "names"

/** Parses a pattern of names with `/` between them. `undefined` if it is malformed. */
export const parseGlob = (pattern: string): ReadonlyArray<Segment> | undefined => {
  const segments: Array<Segment> = []
  for (const part of pattern.split("/")) {
    if (part === "**") {
      if (segments.at(-1) !== "names") segments.push("names")
      continue
    }
    const elements = parseName(part)
    if (elements === undefined) return undefined
    segments.push(elements)
  }
  return segments
}

const parseName = (pattern: string): ReadonlyArray<Element> | undefined => {
  const characters = [...pattern]
  const elements: Array<Element> = []
  for (let index = 0; index < characters.length; index += 1) {
    const character = characters[index]!
    switch (character) {
      case "*":
        if (elements.at(-1)?.kind !== "any") elements.push({ kind: "any" })
        break
      case "?":
        elements.push({ kind: "one" })
        break
      case "\\": {
        index += 1
        const next = characters[index]
        if (next === undefined) return undefined
        elements.push({ kind: "literal", character: next })
        break
      }
      case "[": {
        const set = parseSet(characters, index)
        if (set === undefined) return undefined
        elements.push(set.element)
        index = set.end
        break
      }
      default:
        elements.push({ kind: "literal", character })
    }
  }
  return elements
}

const parseSet = (
  characters: ReadonlyArray<string>,
  start: number
): { readonly element: Element; readonly end: number } | undefined => {
  let index = start + 1
  const isNegated = characters[index] === "!" || characters[index] === "^"
  if (isNegated) index += 1
  const ranges: Array<readonly [string, string]> = []
  for (let isFirst = true; ; isFirst = false) {
    let from = characters[index]
    if (from === undefined) return undefined
    if (from === "]" && !isFirst) return { element: { kind: "set", isNegated, ranges }, end: index }
    if (from === "\\") {
      index += 1
      from = characters[index]
      if (from === undefined) return undefined
    }
    const to =
      characters[index + 1] === "-" && characters[index + 2] !== "]" ? characters[index + 2] : undefined
    ranges.push([from, to ?? from])
    index += to === undefined ? 1 : 3
  }
}

/** Whether a path, as its names, matches a pattern. */
export const matchesGlob = (pattern: ReadonlyArray<Segment>, names: ReadonlyArray<string>): boolean => {
  // Whether the rest of the pattern from `p` matches the rest of the names from `n`, for each `n`, from the end of the pattern.
  let reaches = names.map(() => false)
  reaches.push(true)
  for (let p = pattern.length - 1; p >= 0; p -= 1) {
    const segment = pattern[p]!
    const next = reaches
    reaches = names.map(() => false)
    reaches.push(segment === "names" && next[names.length]!)
    for (let n = names.length - 1; n >= 0; n -= 1)
      reaches[n] =
        segment === "names" ? next[n]! || reaches[n + 1]! : next[n + 1]! && matchesName(segment, names[n]!)
  }
  return reaches[0]!
}

/** Whether a name matches the pattern of one. Goes back to the last `*` alone, so it takes the product of the lengths at most. */
const matchesName = (pattern: ReadonlyArray<Element>, name: string): boolean => {
  const characters = [...name]
  let element = 0
  let at = 0
  let star = -1
  let starAt = 0
  while (at < characters.length) {
    const current = pattern[element]
    if (current?.kind === "any") {
      star = element
      starAt = at
      element += 1
    } else if (current !== undefined && isOne(current, characters[at]!)) {
      element += 1
      at += 1
    } else if (star !== -1) {
      starAt += 1
      at = starAt
      element = star + 1
    } else return false
  }
  while (pattern[element]?.kind === "any") element += 1
  return element === pattern.length
}

const isOne = (element: Element, character: string): boolean => {
  switch (element.kind) {
    case "one":
      return true
    case "literal":
      return element.character === character
    case "set":
      return element.ranges.some(([from, to]) => from <= character && character <= to) !== element.isNegated
    case "any":
      return false
  }
}

/** The patterns that the alternatives of a pattern (`*.{ts,tsx}`) stand for: at most a hundred. `undefined` if there are more. */
export const alternatives = (pattern: string): ReadonlyArray<string> | undefined => {
  const open: Array<string> = [pattern]
  const done: Array<string> = []
  while (open.length > 0) {
    const next = open.pop()!
    const [whole, before = "", inside = "", after = ""] = /^([^{}]*)\{([^{}]*)\}([^]*)$/.exec(next) ?? []
    const nested = whole === undefined ? /^([^]*)\{([^{}]*)\}([^]*)$/.exec(next) : undefined
    if (nested !== undefined && nested !== null)
      open.push(...nested[2]!.split(",").map((one) => nested[1]! + one + nested[3]!))
    else if (whole === undefined) done.push(next)
    else open.push(...inside.split(",").map((one) => before + one + after))
    if (open.length + done.length > 100) return undefined
  }
  return [...new Set(done.reverse())]
}
