/**
 * A line that is searched for values. What is found out about it is kept, so that the search is linear in its length.
 */

const plain = new RegExp(String.raw`[^\s"'\x60,;&<>()[\]{}|\\\x1b]+`, "y")
/** A bar before a name of letters is rather the pipe of a shell. */
const literally = new RegExp(
  String.raw`[^\s"'\x60;&<>|\\\x1b]+(?:\|(?![a-z]{1,20}(?:\s|$))[^\s"'\x60;&<>|\\\x1b]+)*`,
  "y"
)

interface Run {
  from: number
  end: number
}

interface Quotes {
  at: number
  slashes: number
  open: boolean
}

export class Line {
  readonly text: string
  readonly #plain: Run = { from: 0, end: -1 }
  readonly #literal: Run = { from: 0, end: -1 }
  readonly #quotes = new Map<string, Quotes>()

  constructor(text: string) {
    this.text = text
  }

  /** Where a value without quotes ends. A literal value may contain brackets and commas. */
  endOfPlain(from: number, literal: boolean): number {
    const { text } = this
    const run = literal ? this.#literal : this.#plain
    if (from < run.from || from >= run.end) {
      const pattern = literal ? literally : plain
      pattern.lastIndex = from
      run.from = from
      run.end = pattern.test(text) ? pattern.lastIndex : from
    }
    let { end } = run
    while (end > from && end > run.end - 8 && /[.:!?,]/.test(text.charAt(end - 1))) end -= 1
    return end
  }

  /** Where a value ends that a quote opened: at the same quote with as many backslashes, at the end of the line, or after `longest`. */
  endOfQuoted(from: number, opened: string, longest: number): number {
    const { text } = this
    const most = Math.min(text.length, from + longest + 1)
    if (opened.startsWith("&") || opened.startsWith("%")) {
      const end = text.slice(from, most).indexOf(opened)
      return end === -1 ? this.endOfPlain(from, false) : from + end
    }
    const quote = opened.at(-1)
    const escapes = opened.length - 1
    let slashes = 0
    for (let at = from; at < most; at += 1) {
      const character = text[at]
      if (character === "\\") slashes += 1
      else {
        if (character === quote && slashes <= escapes && (escapes > 0 || slashes % 2 === 0))
          return at - slashes
        if (character === "\n") return at
        slashes = 0
      }
    }
    return most
  }

  /** Whether a quote closes a text that was opened before it, as in `log("password:", value)`. Positions ascend. */
  closes(at: number, opened: string): boolean {
    if (opened.startsWith("&") || opened.startsWith("%")) return false
    const { text } = this
    const quote = opened.at(-1)
    const escapes = opened.length - 1
    let quotes = this.#quotes.get(opened)
    if (quotes === undefined || quotes.at > at) {
      quotes = { at: 0, slashes: 0, open: false }
      this.#quotes.set(opened, quotes)
    }
    for (; quotes.at < at; quotes.at += 1) {
      const character = text[quotes.at]
      if (character === "\\") {
        quotes.slashes += 1
        continue
      }
      if (character === "\n") quotes.open = false
      else if (character === quote && quotes.slashes === escapes && !isApostrophe(text, quotes.at))
        quotes.open = !quotes.open
      quotes.slashes = 0
    }
    return quotes.open
  }
}

const isApostrophe = (text: string, at: number): boolean =>
  text[at] === "'" &&
  /\w/.test(text.charAt(at - 1)) &&
  /\w/.test(text.charAt(at + 1)) &&
  !(text[at - 1] === "m" && endsWithColor.test(text.slice(Math.max(0, at - 16), at)))

const endsWithColor = new RegExp(String.raw`\x1b\[[0-9;]{0,12}m$`)
