/**
 * Writes the text of a page: collapses white space as a browser does, and separates blocks by line breaks.
 */

export interface TextWriter {
  readonly text: (text: string) => void
  /** Adds to the text that was written last, before any line break. */
  readonly append: (text: string) => void
  /** Separates the next text by at least as many line breaks. */
  readonly lineBreaks: (count: number) => void
  /** One line break more. */
  readonly lineBreak: () => void
  /** What the next text begins with. */
  readonly marker: (marker: string) => void
  /** What separates the next text from the last one, if no line break does. */
  readonly separator: (separator: string) => void
  /** From here on, white space is kept. */
  readonly openVerbatim: () => void
  readonly closeVerbatim: () => void
  /** The number of pieces that were written. */
  readonly written: () => number
  readonly end: () => string
}

const space = /[ \t\n\f\r\u00a0]+/g
/** Text without these is collapsed already. */
const uncollapsed = /[\t\n\f\r\u00a0]| {2}/

export const makeTextWriter = (): TextWriter => {
  const pieces: Array<string> = []
  let breaks = 0
  let separator = ""
  let marker = ""
  let verbatim = 0

  /** Writes the pending line breaks, marker and separator before the next text. */
  const begin = (): void => {
    if (pieces.length > 0) {
      if (breaks > 0) pieces.push("\n".repeat(breaks))
      else if (separator !== "") pieces.push(separator)
    }
    if (marker !== "") pieces.push(marker)
    breaks = 0
    separator = marker = ""
  }

  const lineBreaks = (count: number): void => {
    breaks = Math.max(breaks, count)
  }

  return {
    text: (text) => {
      if (verbatim > 0) {
        begin()
        pieces.push(text)
        return
      }
      const collapsed = uncollapsed.test(text) ? text.replaceAll(space, " ") : text
      const words = collapsed.trim()
      if (collapsed.startsWith(" ") && separator === "") separator = " "
      if (words === "") return
      begin()
      pieces.push(words)
      if (collapsed.endsWith(" ")) separator = " "
    },
    append: (text) => {
      pieces.push(text)
    },
    lineBreaks,
    lineBreak: () => {
      breaks = Math.min(breaks + 1, 2)
    },
    marker: (given) => {
      marker = given
    },
    separator: (given) => {
      separator = given
    },
    openVerbatim: () => {
      if (verbatim++ > 0) return
      marker = "```\n"
    },
    closeVerbatim: () => {
      if (verbatim === 0 || --verbatim > 0) return
      if (marker === "") pieces.push("\n```")
      marker = ""
    },
    written: () => pieces.length,
    end: () => pieces.join("").trim()
  }
}
