/**
 * A unified diff for a person who decides: characters that are not visible are escaped, and omitted lines are counted.
 */
import { Display } from "@fermata/sdk"
import { type LineEdit, lineDiff } from "./lineDiff.ts"

/** The texts of a file before and after a change; `undefined` for a file that does not exist. */
export interface Texts {
  readonly path: string
  readonly before: string | undefined
  readonly after: string
}

/** Lines around a change. */
const around = 3

/** The longest diff that is shown as a whole, in characters. */
const longest = 100_000

/**
 * The diff of a text, for a person: characters that are not visible are escaped, and the middle of a diff of more than 100,000 characters is
 * left out and counted. Empty if nothing changes.
 */
export const unifiedDiff = ({ after, before, path }: Texts): string => {
  if (before === after) return ""
  const [old, isOldCrlf] = linesOf(before ?? "")
  const [now, isNowCrlf] = linesOf(after)
  // A file with one kind of line end is shown without it. Otherwise `\r` is shown at the end of the lines that have it.
  const isPlain = isOldCrlf && isNowCrlf
  const shown = (lines: ReadonlyArray<string>) =>
    isPlain ? lines.map((line) => line.replace(/\r(?=\n$)/, "")) : lines
  const name = Display.line(path)
  const hunks = hunksOf(lineDiff(shown(old), shown(now)))
  const head = [`--- ${before === undefined ? "/dev/null" : name}`, `+++ ${name}`]
  return cut([...head, ...hunks])
}

/** The number of lines of a text, as a diff counts them. */
export const countLines = (text: string): number => linesOf(text)[0].length

/** The lines with their ends, so that a last line without one differs from one that has it; and whether all ends are `\r\n`. */
const linesOf = (text: string): readonly [ReadonlyArray<string>, isCrlf: boolean] => {
  const lines = text.split(/(?<=\n)/)
  const all = text === "" ? [] : lines
  return [all, all.every((line) => !line.endsWith("\n") || line.endsWith("\r\n"))]
}

const hunksOf = (edits: ReadonlyArray<LineEdit>): ReadonlyArray<string> => {
  const out: Array<string> = []
  let index = 0
  let oldLine = 1
  let newLine = 1
  while (index < edits.length) {
    if (edits[index]!.kind === "same") {
      index += 1
      oldLine += 1
      newLine += 1
      continue
    }
    const begin = Math.max(0, index - around)
    const lead = index - begin
    let end = index
    for (let at = index; at < edits.length && at <= end + 2 * around; at += 1)
      if (edits[at]!.kind !== "same") end = at
    const hunk = edits.slice(begin, Math.min(edits.length, end + around + 1))
    const removed = hunk.filter(({ kind }) => kind !== "added").length
    const added = hunk.filter(({ kind }) => kind !== "removed").length
    const range = (line: number, count: number) => `${count === 0 ? line - lead - 1 : line - lead},${count}`
    out.push(`@@ -${range(oldLine, removed)} +${range(newLine, added)} @@`)
    for (const { kind, line } of hunk) out.push(...shownLine(kind, line))
    index = begin + hunk.length
    oldLine += removed - lead
    newLine += added - lead
  }
  return out
}

const marks = { same: " ", removed: "-", added: "+" } as const

const shownLine = (kind: LineEdit["kind"], line: string): ReadonlyArray<string> => {
  const isEnded = line.endsWith("\n")
  const content = isEnded ? line.slice(0, -1) : line
  // A `\r` in the text is shown, also before a line end.
  const shown = `${marks[kind]}${Display.text(content)}`
  return isEnded ? [shown] : [shown, "\\ No newline at end of file"]
}

/** Leaves out the middle of a diff that is too long, and counts it. */
const cut = (lines: ReadonlyArray<string>): string => {
  const whole = lines.join("\n")
  if (whole.length <= longest) return whole
  const head = whole.slice(0, safe(whole, (longest * 3) / 4))
  const tail = whole.slice(safe(whole, whole.length - longest / 4))
  const missing = whole.slice(head.length, whole.length - tail.length)
  const size = `${missing.length.toLocaleString("en-US")} characters with ${missing.split("\n").length.toLocaleString("en-US")} lines`
  return `${head}\n[… ${size} of this diff are not shown; the arguments of the call have the whole text …]\n${tail}`
}

/** A position that is not inside a character. */
const safe = (text: string, position: number): number => {
  const at = Math.floor(position)
  const code = text.charCodeAt(at)
  return code >= 0xdc00 && code <= 0xdfff ? at - 1 : at
}
