/**
 * Finds the misfits of a value that a program gives: unknown, missing and misplaced keys, and values of the wrong kind. A {@link Shape}
 * describes what is allowed.
 *
 * Stored data is not checked here. Its schemas ignore unknown fields, so that a later version may add some.
 */
import { line } from "../Display.ts"
import type { Misfit } from "../Misfit.ts"
import { copyJson, maxGivenDepth } from "./json.ts"
import { isPlain, kindOf, millisOf } from "./untyped.ts"

/** The allowed form of a value. A value that is not an object has no keys; its decoder checks it, unless the shape is a `Kind`. */
export type Shape =
  /**
   * An object with no other keys than these. With `demanded`, for a value without a decoder, any other value is a misfit, too. With `anyOf`,
   * an object without a value for any of those keys is a misfit.
   */
  | { readonly keys: Keys; readonly demanded?: true; readonly anyOf?: ReadonlyArray<string> }
  /** A list whose items have this shape. */
  | { readonly each: Shape; readonly required?: true }
  /** An object with any keys and these values. With `filled`, `undefined` is a misfit at every depth, because JSON would drop it. */
  | { readonly values: Shape | "anything"; readonly filled?: true }
  /** An object of one of several shapes, by its `_tag`. */
  | { readonly cases: Readonly<Record<string, Shape>>; readonly required?: true }
  /** A value that is checked itself. `undefined` counts as absent. */
  | Kind

/** A kind of value: its description in words, and its check. */
export interface Kind {
  readonly takes: string
  readonly is: (value: unknown) => boolean
  /** The types of which only some values are of the kind, so that a sentence says "another text". */
  readonly among?: ReadonlyArray<"string" | "number">
  /** Whether an object without a value for the key is refused. */
  readonly required?: true
}

/** The shape of each key's value. `elsewhere` marks a key that belongs in another place, and names that place. */
export type Keys = Readonly<Record<string, Shape | "anything" | { readonly elsewhere: string }>>

/** A kind whose values are these words. */
export const oneOf = (...words: ReadonlyArray<string>): Kind => ({
  takes: words.map((word) => `"${word}"`).join(" or "),
  is: (value) => (words as ReadonlyArray<unknown>).includes(value),
  among: ["string"]
})

export const flag: Kind = { takes: "true or false", is: (value) => typeof value === "boolean" }
export const string: Kind = { takes: "a string", is: (value) => typeof value === "string" }
export const nonEmpty: Kind = {
  takes: "a string that is not empty",
  is: (value) => typeof value === "string" && value !== "",
  among: ["string"]
}
export const atMost = (length: number): Kind => ({
  takes: `a text of at most ${grouped(length)} characters`,
  is: (value) => typeof value === "string" && value.length <= length,
  among: ["string"]
})
/** Groups the digits of a natural number by commas. The first `toLocaleString` of a process takes 20 ms, which an import would cost. */
function grouped(number: number): string {
  return String(number).replace(/\B(?=(\d{3})+$)/g, ",")
}
/** A note of a person: a record, and a text for the model. */
export const note: Kind = atMost(100_000)
export const strings: Kind = {
  takes: "a list of strings",
  is: (value) => Array.isArray(value) && value.every((item) => typeof item === "string")
}
export const list: Kind = { takes: "a list", is: Array.isArray }
export const duration: Kind = {
  takes: 'a duration, such as "5 seconds" or 5000',
  is: (value) => millisOf(value) !== undefined,
  among: ["string", "number"]
}
export const finite: Kind = { takes: "a finite number", is: Number.isFinite, among: ["number"] }
export const natural: Kind = {
  takes: "a whole number of 0 or more",
  is: (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  among: ["number"]
}
export const positive: Kind = {
  takes: "a whole number of 1 or more",
  is: (value) => Number.isSafeInteger(value) && (value as number) >= 1,
  among: ["number"]
}
/** A size or a count without an upper bound. */
export const atLeastOne: Kind = {
  takes: "a number of 1 or more",
  is: (value) => typeof value === "number" && value >= 1,
  among: ["number"]
}
export const atLeastZero: Kind = {
  takes: "a number of 0 or more",
  is: (value) => typeof value === "number" && value >= 0,
  among: ["number"]
}
export const nonNegative: Kind = {
  takes: "a number of 0 or more",
  is: (value) => Number.isFinite(value) && (value as number) >= 0,
  among: ["number"]
}
export const fraction: Kind = {
  takes: "a number from 0 to 1",
  is: (value) => nonNegative.is(value) && (value as number) <= 1,
  among: ["number"]
}
export const time: Kind = {
  takes: "a finite number of milliseconds, such as Date.now() returns",
  is: Number.isFinite
}
export const jsonObject: Kind = {
  takes: "an object of plain JSON data",
  is: (value) => typeof value === "object" && value !== null && isPlain(value) && json.is(value)
}
export const json: Kind = {
  takes: `plain JSON data, at most ${maxGivenDepth} levels deep`,
  is: (value) => copyJson(value) !== undefined
}
export const length: Kind = {
  takes: "a whole number of characters, 1 or more",
  is: (value) => Number.isInteger(value) && (value as number) >= 1
}
export const abortSignal: Kind = {
  takes: "an AbortSignal",
  is: (value) =>
    typeof value === "object" && value !== null && "aborted" in value && "addEventListener" in value
}
export const callable: Kind = { takes: "a function", is: (value) => typeof value === "function" }

/** Makes a kind refuse an object without a value of it. */
export const required = (kind: Kind): Kind => ({ ...kind, required: true })

/** A kind whose values are those of several kinds. */
export const either = (...shapes: ReadonlyArray<Kind>): Kind => ({
  takes: shapes.map(({ takes }) => takes).join(" or "),
  is: (value) => shapes.some(({ is }) => is(value)),
  among: shapes.flatMap(({ among = [] }) => among)
})

/** The shape of an object with these keys. Only the values of the keys in `inside` are checked. */
export const keysOf = (names: Iterable<string>, inside: Keys = {}): { readonly keys: Keys } => ({
  keys: Object.fromEntries([
    ...[...names].map((name) => [name, "anything"] as const),
    ...Object.entries(inside)
  ])
})

/** The shape of an object type. The compiler requires every key of the type, so that none is forgotten. */
export const shapeOf = <Options>(keys: {
  readonly [Key in keyof Required<Options>]: Shape | "anything"
}): { readonly keys: Keys } => ({ keys })

/** Makes a shape refuse values that are not objects. */
export const demanded = (shape: Shape): Shape => ("keys" in shape ? { ...shape, demanded: true } : shape)

/** Makes a shape refuse an object in which none of these keys has a value. */
export const withAnyOf = (shape: Shape, ...keys: ReadonlyArray<string>): Shape =>
  "keys" in shape ? { ...shape, anyOf: keys } : shape

/** Finds the misfits of a value; none if it is valid. `whole` names the value in sentences, such as `the policy`. */
export const misfits = (value: unknown, shape: Shape, whole: string): ReadonlyArray<Misfit> => {
  const found: Array<Misfit> = []
  look(value, shape, { whole, path: "" }, found)
  return found
}

/** Like {@link misfits}, for a value without a decoder: any value except an object or `undefined` is a misfit. */
export const optionMisfits = (value: unknown, shape: Shape, whole: string): ReadonlyArray<Misfit> =>
  value === undefined || (typeof value === "object" && value !== null)
    ? misfits(value, shape, whole)
    : [notPlain(value, { whole, path: "" })]

/** The location of a value inside the checked one. */
interface Location {
  readonly whole: string
  readonly path: string
}

const look = (value: unknown, shape: Shape, location: Location, found: Array<Misfit>): void => {
  if ("takes" in shape) {
    if (value !== undefined && !shape.is(value)) found.push(unfit(value, shape, location))
    return
  }
  if (typeof value !== "object" || value === null) {
    if (value === undefined) return
    if ("each" in shape) found.push(unfit(value, list, location))
    else if (!("keys" in shape) || shape.demanded === true) found.push(notPlain(value, location))
    return
  }
  if ("each" in shape) {
    if (!Array.isArray(value)) {
      found.push(unfit(value, list, location))
      return
    }
    value.forEach((item: unknown, index) => {
      const place = inside(location, String(index))
      if (item === undefined && "takes" in shape.each) found.push(unfit(item, shape.each, place))
      else look(item, shape.each, place, found)
    })
    return
  }
  if (!isPlain(value)) {
    found.push(notPlain(value, location))
    return
  }
  if ("cases" in shape) {
    const tag = (value as { readonly _tag?: unknown })._tag
    const member = typeof tag === "string" && Object.hasOwn(shape.cases, tag) ? shape.cases[tag] : undefined
    if (member !== undefined) look(value, member, location, found)
    else found.push(unfit(tag, oneOf(...Object.keys(shape.cases)), inside(location, "_tag")))
    return
  }
  if ("values" in shape && shape.filled === true) lookForUnfilled(value, location, found, maxGivenDepth)
  for (const key of Reflect.ownKeys(value)) {
    if (typeof key === "symbol") {
      found.push(unknownKey(String(key), [], location))
      continue
    }
    const expected = "values" in shape ? shape.values : own(shape.keys, key)
    if (expected === undefined)
      found.push(unknownKey(key, "keys" in shape ? knownIn(shape.keys) : [], location))
    else if (!Object.prototype.propertyIsEnumerable.call(value, key)) found.push(hidden(key, location))
    else if (expected === "anything") continue
    else if ("elsewhere" in expected) found.push(misplaced(key, expected.elsewhere, location))
    else look((value as Record<string, unknown>)[key], expected, inside(location, key), found)
  }
  if (!("keys" in shape)) return
  lookForMissing(value, shape.keys, location, found)
  const { anyOf } = shape
  if (anyOf === undefined || found.some(({ place }) => place === named(location))) return
  if (anyOf.every((key) => (value as Record<string, unknown>)[key] === undefined))
    found.push(noneOf(anyOf, location))
}

/** The kind of an object of one of several shapes, for the sentence about a missing one. */
const tagged = (cases: Readonly<Record<string, Shape>>) => ({
  takes: `an object whose "_tag" is ${oneOf(...Object.keys(cases)).takes}`
})

const lookForMissing = (value: object, keys: Keys, location: Location, found: Array<Misfit>): void => {
  for (const [key, kind] of Object.entries(keys)) {
    if (kind === "anything" || !("required" in kind)) continue
    const { takes } = "takes" in kind ? kind : "cases" in kind ? tagged(kind.cases) : list
    if ((value as Record<string, unknown>)[key] !== undefined) continue
    // A misspelt key is one problem.
    if (found.some(({ nearest, place }) => nearest === key && place === named(location))) continue
    found.push(missing(key, takes, location))
  }
}

const lookForUnfilled = (value: unknown, location: Location, found: Array<Misfit>, levels: number): void => {
  if (typeof value !== "object" || value === null || levels <= 0) return
  for (const [key, item] of Object.entries(value)) {
    if (item === undefined) found.push(unfilled(key, location))
    else lookForUnfilled(item, inside(location, key), found, levels - 1)
  }
}

/** The keys that belong in an object of the shape. */
const knownIn = (keys: Keys): ReadonlyArray<string> =>
  Object.entries(keys).flatMap(([key, kind]) => (kind !== "anything" && "elsewhere" in kind ? [] : [key]))

const own = (keys: Keys, key: string): Keys[string] | undefined =>
  Object.hasOwn(keys, key) ? keys[key] : undefined

const inside = ({ path, whole }: Location, key: string): Location => ({
  whole,
  path: path === "" ? shown(key) : `${path}.${shown(key)}`
})

const named = ({ path, whole }: Location): string => (path === "" ? whole : `"${line(path)}" of ${whole}`)

const notPlain = (value: unknown, location: Location): Misfit => {
  const isOfClass = typeof value === "object" && value !== null && !Array.isArray(value)
  const given = isOfClass ? "an object of a class, or with another prototype," : kindOf(value)
  return {
    place: named(location),
    problem: `${given} was given as ${named(location)}, which has to be a plain object`
  }
}

const unfit = (value: unknown, { among = [], takes }: Kind, location: Location): Misfit => ({
  place: named(location),
  problem: `${named(location)} takes ${takes}, and ${unfitKind(value, among)} was given`
})

const unfitKind = (value: unknown, among: NonNullable<Kind["among"]>): string => {
  if (typeof value === "string") return among.includes("string") ? "another text" : "a string"
  if (typeof value !== "number") return kindOf(value)
  if (!Number.isFinite(value)) return String(value)
  return among.includes("number") ? "another number" : "a number"
}

const missing = (key: string, takes: string, location: Location): Misfit => ({
  place: named(location),
  key,
  problem: `${named(inside(location, key))} is missing: it takes ${takes}`
})

const noneOf = (keys: ReadonlyArray<string>, location: Location): Misfit => ({
  place: named(location),
  key: keys[0]!,
  problem: `${named(location)} has neither ${keys.join(" nor ")}: give one of them, or leave it out`
})

const misplaced = (key: string, where: string, location: Location): Misfit => ({
  place: named(location),
  key,
  problem: `there is no "${key}" in ${named(location)}: ${where}`
})

const unfilled = (key: string, location: Location): Misfit => ({
  place: named(location),
  key: shown(key),
  problem: `${named(location)} has no value for "${line(shown(key))}": leave the key out, or name a value`
})

const hidden = (key: string, location: Location): Misfit => ({
  place: named(location),
  key: shown(key),
  problem: `"${line(shown(key))}" in ${named(location)} is not enumerable, so that a copy would lose it: give it as a plain field`
})

const unknownKey = (key: string, names: ReadonlyArray<string>, location: Location): Misfit => {
  const known = names.filter((name) => !name.startsWith("~"))
  const nearest = nearestOf(key, known)
  return {
    place: named(location),
    key: shown(key),
    ...(nearest === undefined ? {} : { nearest }),
    problem: `there is no "${line(shown(key))}" in ${named(location)}${hintFor(key, known)}`
  }
}

/** A hint for an unknown key, in brackets: the most similar known key, or else all known keys. */
export const hintFor = (key: string, known: ReadonlyArray<string>): string => {
  const nearest = nearestOf(key, known)
  if (nearest !== undefined) return ` (did you mean "${nearest}"?)`
  return known.length === 0 ? "" : ` (there are ${known.join(", ")})`
}

const longest = 64

/** A key in an error sentence, shortened to 64 characters. */
const shown = (key: string): string => (key.length > longest ? `${key.slice(0, longest - 1)}…` : key)

/** The known key that a misspelt key most probably means: one that differs in few letters, or that it abbreviates. */
const nearestOf = (given: string, known: ReadonlyArray<string>): string | undefined => {
  const key = given.toLowerCase().replaceAll(/[^a-z0-9]/g, "")
  if (key === "" || key.length > longest) return undefined
  let nearest: string | undefined
  const most = Math.max(1, Math.floor((key.length + 1) / 3))
  let least = most + 1
  for (const name of known) {
    const other = name.toLowerCase().replaceAll(/[^a-z0-9]/g, "")
    const letters = distanceOf(key, other)
    const distance = letters > most && isShortFor(key, other) ? most : letters
    if (distance < least) {
      nearest = name
      least = distance
    }
  }
  return nearest
}

/** Whether `short` abbreviates `word`: at least three letters, the first the same, the rest in order. `args` abbreviates `arguments`. */
const isShortFor = (short: string, word: string): boolean => {
  if (short.length < 3 || short[0] !== word[0]) return false
  let at = 0
  for (const letter of word) if (letter === short[at]) at += 1
  return at === short.length
}

/** The number of letters to change, add, remove or exchange with the next one (optimal string alignment distance). */
const distanceOf = (one: string, other: string): number => {
  let before: ReadonlyArray<number> = []
  let above = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (let row = 1; row <= one.length; row += 1) {
    const line = [row]
    for (let column = 1; column <= other.length; column += 1) {
      const changed = above[column - 1]! + (one[row - 1] === other[column - 1] ? 0 : 1)
      const isExchanged = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1]
      const exchanged = row > 1 && column > 1 && isExchanged ? before[column - 2]! + 1 : changed
      line.push(Math.min(changed, exchanged, above[column]! + 1, line[column - 1]! + 1))
    }
    before = above
    above = line
  }
  return above[other.length]!
}
