/**
 * What may stand within a secret when a program shows it: a line break with the indentation of the next line, the colors of a terminal,
 * characters without a width. They are recognized also where JSON escapes them.
 */

/** The shortest text that is searched for with gaps in it. A shorter one could be the end and the beginning of two words. */
export const shortestWithGaps = 8

/** The part of a text that an occurrence with gaps may take: this much for each of its characters, and this much more. */
const roomForEach = 8
const roomForAll = 512

/** The longest occurrence of a text of a length. */
export const longestWithGaps = (length: number): number => length * roomForEach + roomForAll

/** The longest gaps between the first and the second character. */
const longestGaps = 128

const escape = String.raw`(?:\x1b|\\{1,4}(?:u001[bB]|x1[bB]|033|e))\[[0-9;?]{0,20}[A-Za-z]`
const lineBreak = String.raw`\\{0,4}\r?\n[ \t]{0,80}|\\{1,4}(?:r\\{1,4})?n[ \t]{0,80}`
const withoutWidth = String.raw`[\u00ad\u200b-\u200d\u2060\ufeff]`
const gap = new RegExp(`${escape}|${lineBreak}|${withoutWidth}`, "y")
/** The beginning of a gap at the end of a text. */
const begun = new RegExp(
  String.raw`(?:\x1b(?:\[[0-9;?]{0,20})?|\r|\\{1,4}(?:\r|r\\{0,4}|u(?:0(?:01?)?)?|x1?|03?)?|\\{1,4}(?:u001[bB]|x1[bB]|033|e)(?:\[[0-9;?]{0,20})?)$`,
  "y"
)

/** The characters that a gap may begin with. */
export const gapStarts: ReadonlyArray<number> = [10, 13, 27, 92, 0xad, 0x200b, 0x200c, 0x200d, 0x2060, 0xfeff]

const mayBeGap = (code: number): boolean => gapStarts.includes(code)

/** The position after a gap, or `at` if none is there. */
const afterGap = (text: string, at: number): number => {
  if (!mayBeGap(text.charCodeAt(at))) return at
  gap.lastIndex = at
  return gap.test(text) ? gap.lastIndex : at
}

/**
 * The first position at or after `from` at which no gap begins. The length of the text if a gap may go on, and `from` if the gaps are longer
 * than those of an occurrence.
 */
export const afterGaps = (text: string, from: number): number => {
  let at = from
  for (let next = afterGap(text, at); next !== at; next = afterGap(text, at)) {
    at = next
    if (at - from > longestGaps) return from
  }
  return isBegun(text, at) ? text.length : at
}

/** Whether the text ends with the beginning of a gap, from a position on. */
const isBegun = (text: string, at: number): boolean => {
  if (!mayBeGap(text.charCodeAt(at))) return false
  begun.lastIndex = at
  return begun.test(text)
}

/** How many characters of an occurrence stay if a line break follows them. */
const mostBeforeLineBreak = 3

/**
 * The end of a line break that comes after at most three characters from a position on, gaps not counted, or -1. What stands before it is
 * shown even if the rest of a known text follows: a complete line would otherwise be held back because its last letter begins a secret.
 */
export const earlyLineBreak = (text: string, at: number): number => {
  let from = at + 1
  for (let count = 1; count <= mostBeforeLineBreak && from < text.length;) {
    const after = afterGap(text, from)
    const lineBreak = text.slice(from, after).indexOf("\n")
    if (lineBreak !== -1) return from + lineBreak + 1
    if (after === from) count += 1
    from = Math.max(after, from + 1)
  }
  return -1
}

/**
 * The end of an occurrence of a known text that begins at a position and has gaps in it: -1 if it does not occur, and the length of the
 * text plus one if only what follows the text can decide it.
 */
export const endWithGaps = (text: string, at: number, known: string): number => {
  const most = at + longestWithGaps(known.length)
  let index = 0
  let from = at
  while (index < known.length) {
    if (from > most) return -1
    if (from >= text.length) return text.length + 1
    if (text.charCodeAt(from) === known.charCodeAt(index)) {
      from += 1
      index += 1
      continue
    }
    const after = index === 0 ? from : afterGap(text, from)
    if (after === from) {
      return index > 0 && isBegun(text, from) ? text.length + 1 : -1
    }
    // A line that breaks between words has no space there.
    if (known[index] === " " && after < text.length && text[after] !== " ") index += 1
    from = after
  }
  return from
}
