/**
 * Applies the replacements of a call to a text: all of them, or none. A text that is not found, or found more often than it may, is described so
 * that the model can correct its call.
 */
import { Display } from "@fermata/sdk"
import * as Result from "effect/Result"

/** A replacement. */
export interface Edit {
  readonly oldText: string
  readonly newText: string
  readonly replaceAll?: boolean | undefined
}

/** The text after the edits, and how many places changed. */
export interface Edited {
  readonly text: string
  readonly places: number
  /** The lines of the result, from 1, at which the new texts begin: the first ten. */
  readonly lines: ReadonlyArray<number>
}

/** Why edits cannot be applied, for the model. */
export type Problem = string

/** Applies edits in their order, each to the text that the one before it made. */
export const applyEdits = (before: string, edits: ReadonlyArray<Edit>): Result.Result<Edited, Problem> => {
  let text = before
  let starts: ReadonlyArray<number> = []
  for (const [index, edit] of edits.entries()) {
    const which = edits.length === 1 ? "" : `Edit ${index + 1} of ${edits.length}: `
    const fitting = withLineEnds(text, edit)
    const { newText, oldText } = fitting
    const problem = problemOf(text, fitting, edit.replaceAll === true)
    if (problem !== undefined) return Result.fail(`${which}${problem} Nothing was changed.`)
    const found = positionsOf(text, oldText)
    const growth = newText.length - oldText.length
    const shift = (start: number) => start + growth * found.filter((at) => at < start).length
    starts = [...starts.map(shift), ...found.map((at, place) => at + growth * place)]
    text = text.split(oldText).join(newText)
  }
  const lines = starts
    .slice(0, 10)
    .map((at) => lineAt(text, at))
    .sort((a, b) => a - b)
  return Result.succeed({ text, places: starts.length, lines })
}

/**
 * The edit with the line ends of the file: a model writes `\n` for a file that was shown to it in lines. Only for a file whose lines all end with
 * `\r\n`.
 */
const withLineEnds = (text: string, edit: Edit): Edit => {
  if (edit.oldText.includes("\r") || !/\r\n/.test(text) || /(?<!\r)\n/.test(text)) return edit
  const converted = (value: string) => value.replaceAll(/(?<!\r)\n/g, "\r\n")
  return { ...edit, oldText: converted(edit.oldText), newText: converted(edit.newText) }
}

const problemOf = (text: string, { newText, oldText }: Edit, isAll: boolean): Problem | undefined => {
  if (oldText === "") return "oldText is empty. Give the text to replace, or use write_file for a new file."
  if (oldText === newText) return "oldText and newText are equal."
  const found = positionsOf(text, oldText)
  if (found.length === 1 || (found.length > 1 && isAll)) return undefined
  if (found.length > 1) {
    const lines = found.slice(0, 10).map((at) => lineAt(text, at))
    const more = found.length > lines.length ? ", …" : ""
    return `oldText occurs ${found.length} times, at the lines ${lines.join(", ")}${more}. Give more of the lines around it, so that it is unique, or set replaceAll.`
  }
  return `oldText does not occur in the file. ${nearMiss(text, oldText)}`
}

/** Where a text occurs, without overlaps. */
const positionsOf = (text: string, part: string): ReadonlyArray<number> => {
  const found: Array<number> = []
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + part.length)) found.push(at)
  return found
}

const lineAt = (text: string, position: number): number => {
  let line = 1
  for (let at = text.indexOf("\n"); at !== -1 && at < position; at = text.indexOf("\n", at + 1)) line += 1
  return line
}

/** The most characters of the file that a description of a near miss shows. */
const longestShown = 2_000

/**
 * Describes the place that is most like a text that does not occur: the same lines with other spaces, or the lines that share most words
 * with it.
 */
const nearMiss = (text: string, wanted: string): string => {
  const lines = text.split("\n")
  const wantedLines = trimmed(wanted.split("\n"))
  if (wantedLines.length === 0) return "It has only spaces."
  const bare = lines.slice(0, mostCompared).map(unspaced)
  const bareWanted = wantedLines.map(unspaced)
  const spaced = windows(bare.length, bareWanted.length).filter((start) =>
    bareWanted.every((line, index) => bare[start + index] === line)
  )
  const [only] = spaced
  if (only !== undefined) {
    const where = rangeOf(only, wantedLines.length)
    const again = spaced.length > 1 ? ` (and ${spaced.length - 1} more)` : ""
    return `The ${where}${again} differ from it only in spaces, tabs or characters that look alike:\n${excerpt(lines, only, wantedLines.length)}\nUse exactly these characters.`
  }
  const close = closest(lines, wantedLines)
  return close === undefined
    ? "No lines of the file are similar. Read the file again."
    : `The most similar ${rangeOf(close, wantedLines.length)}:\n${excerpt(lines, close, wantedLines.length)}\nUse exactly the characters of the file.`
}

const rangeOf = (start: number, count: number): string =>
  count === 1 ? `line ${start + 1}` : `lines ${start + 1} to ${start + count}`

const trimmed = (lines: ReadonlyArray<string>): ReadonlyArray<string> => {
  const first = lines.findIndex((line) => line.trim() !== "")
  const last = lines.findLastIndex((line) => line.trim() !== "")
  return first === -1 ? [] : lines.slice(first, last + 1)
}

/** Where a number of lines can begin among others. */
const windows = (all: number, length: number): ReadonlyArray<number> =>
  all < length ? [] : Array.from({ length: all - length + 1 }, (_, start) => start)

/** A line without spaces, in compatibility form and with plain quotes and dashes. */
const unspaced = (line: string): string =>
  line
    .normalize("NFKC")
    .replaceAll(/[\s\p{Default_Ignorable_Code_Point}]+/gu, "")
    .replaceAll(/[\u2018\u2019\u201a]/g, "'")
    .replaceAll(/[\u201c\u201d\u201e]/g, '"')
    .replaceAll(/[\u2010-\u2015\u2212]/g, "-")

/** The most lines of a file that are compared. */
const mostCompared = 20_000

/**
 * Where the lines begin that have most of the wanted words, if they have more than half of them. A word counts by its length, and of equal places
 * the one with fewer other words is taken.
 */
const closest = (lines: ReadonlyArray<string>, wanted: ReadonlyArray<string>): number | undefined => {
  const compared = lines.slice(0, mostCompared).map(wordsOf)
  const searched = wanted.slice(0, 20).map(wordsOf)
  const whole = searched.reduce((sum, words) => sum + lengthOf(words), 0)
  let best: number | undefined
  let score = 0.55
  for (const start of windows(compared.length, searched.length)) {
    let common = 0
    let all = 0
    for (const [index, words] of searched.entries()) {
      const line = compared[start + index]!
      common += lengthOf([...words].filter((word) => line.has(word)))
      all += lengthOf(line)
    }
    const found = common / whole - all / (whole + all) / 100
    if (found > score) {
      score = found
      best = start
    }
  }
  return best
}

const wordsOf = (line: string): ReadonlySet<string> =>
  new Set(line.match(/[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu))

const lengthOf = (words: Iterable<string>): number => {
  let length = 0
  for (const word of words) length += word.length
  return length
}

const excerpt = (lines: ReadonlyArray<string>, start: number, count: number): string => {
  const shown = lines
    .slice(start, start + count)
    .map((line, index) => `${start + index + 1}\t${Display.text(line.replace(/\r$/, ""))}`)
    .join("\n")
  return shown.length > longestShown
    ? `${shown.slice(0, longestShown)}\n[… ${shown.length - longestShown} more characters …]`
    : shown
}
