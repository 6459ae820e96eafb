/**
 * The scrubbing of whole and of streamed text. The result is the same for every division into chunks.
 */
import { NameBefore } from "./acrossLines.ts"
import { GrowingText } from "./GrowingText.ts"
import { JsonFields } from "./JsonFields.ts"
import { KnownScrubber, type KnownValues } from "./knownValues.ts"
import { PrivateKeys } from "./privateKeys.ts"
import { type Layers, mayHoldSecret, scan } from "./scan.ts"
import { placeholder, type Span } from "./span.ts"

/**
 * Receives a text in chunks and returns it without secrets. A line is judged when it is complete. Until then its words are returned as long as
 * nothing in it may make a secret of a word, and the rest is held back.
 */
export class LineScrubber {
  /** The text that has not been judged. */
  #rest = new GrowingText()
  /** How much of the rest was looked at for marks of a secret, and whether it has one. */
  #checked = 0
  #isMarked = false
  /** How much of the output was returned before its line was judged. */
  #returned = 0
  readonly #keys = new PrivateKeys()
  readonly #names = new NameBefore()
  readonly #found: ((type: string) => void) | undefined
  readonly #layers: Layers

  constructor(layers: Layers, found?: (type: string) => void) {
    this.#layers = layers
    this.#found = found
  }

  push(chunk: string): string {
    if (this.#layers === "none") return chunk
    const { length } = this.#rest
    this.#rest.push(chunk)
    // No piece ends before the chunk, but with a carriage return or a space before it.
    const searchFrom = Math.max(0, length - 1)
    const out =
      this.#rest.length >= longestPiece ||
      hasEnd(this.#rest.slice(searchFrom - beforeSpace), Math.min(searchFrom, beforeSpace))
        ? this.#pieces(searchFrom)
        : ""
    return this.#unreturned(out) + this.#words()
  }

  end(): string {
    const rest = this.#rest.slice(0)
    const out = rest === "" ? "" : this.#piece(rest)
    this.#restart("")
    return this.#unreturned(
      out +
        this.#keys
          .end()
          .map((line) => this.#line(line))
          .join("")
    )
  }

  /** Judges the pieces that are complete. None ends before `searchFrom`. */
  #pieces(searchFrom: number): string {
    const text = this.#rest.slice(0)
    let out = ""
    let from = 0
    let end = endOfPiece(text, from, searchFrom, this.#endsAtSentences)
    for (; end !== -1; end = endOfPiece(text, from, from, this.#endsAtSentences)) {
      out += this.#piece(text.slice(from, end))
      from = end
    }
    if (from > 0) this.#restart(text.slice(from))
    return out
  }

  /** Begins with a text of which nothing was looked at. */
  #restart(text: string): void {
    this.#rest = new GrowingText(text)
    this.#checked = 0
    this.#isMarked = false
  }

  /** Whether each sentence is judged alone, so that little of a text without line breaks is held back. */
  get #endsAtSentences(): boolean {
    return !this.#keys.isHolding && !this.#names.isPending
  }

  #unreturned(out: string): string {
    const rest = out.slice(this.#returned)
    this.#returned -= out.length - rest.length
    return rest
  }

  /** The complete words of a line without marks. A word, if one goes on, begins where the returned text ends. */
  #words(): string {
    if (this.#isMarked || this.#rest.length === 0 || !this.#endsAtSentences) return ""
    this.#isMarked = mayHoldSecret(this.#rest.slice(this.#checked - longestMark))
    const checked = this.#checked
    this.#checked = this.#rest.length
    if (this.#isMarked) return ""
    const from = Math.max(checked, this.#returned)
    const added = this.#rest.slice(from)
    const start = startOfLastWord(added)
    const isRow = isOfRow(added, start) && (start > 0 || this.#returned >= checked)
    const end = isRow ? this.#rest.length : start > 0 ? from + start : this.#returned
    const words = this.#rest.slice(this.#returned, end)
    this.#returned = end
    return words
  }

  #piece(piece: string): string {
    return this.#keys
      .next(piece, this.#found)
      .map((line) => this.#line(line))
      .join("")
  }

  #line(given: string): string {
    let line = given
    if (line.length < shortestLine && !this.#names.needsEveryLine) return line
    // What is removed changes what stands around the rest, so a second scrubbing could find more. The line is scanned until nothing is found.
    let spans = scan(line, this.#layers, this.#names)
    for (let round = 0; spans.length > 0 && round < mostRounds; round += 1) {
      line = this.#without(line, spans)
      spans = scan(line, this.#layers)
    }
    return line
  }

  #without(line: string, spans: ReadonlyArray<Span>): string {
    let out = ""
    let from = 0
    for (const { end, start, type } of spans) {
      this.#found?.(type)
      out += line.slice(from, start) + placeholder(type)
      from = end
    }
    return out + line.slice(from)
  }
}

const mostRounds = 8

/** A shorter line has no name and value. */
const shortestLine = 8

/** The longest line that is looked at as a whole. */
const longestPiece = 65_536

/** The end of the next sentence or line, or of the next part of a long one, or -1 if the text may go on. */
const endOfPiece = (text: string, from: number, searchFrom: number, atSentences: boolean): number => {
  const end = endOfLine(text, from, searchFrom, atSentences)
  if (end !== -1 && end - from <= longestPiece) return end
  if (text.length - from < longestPiece) return -1
  for (let at = from + longestPiece - 1; at > from + longestPiece / 2; at -= 1)
    if (",;&{}]".includes(text.charAt(at))) return at + 1
  return from + longestPiece
}

/** A line ends with a line feed, a carriage return, or both. */
const endOfLine = (text: string, from: number, searchFrom: number, atSentences: boolean): number => {
  for (let at = searchFrom; ; at = ends.lastIndex) {
    ends.lastIndex = at
    const found = ends.exec(text)
    if (found === null) return -1
    const end = ends.lastIndex
    if (found[0] !== " ") return end
    if (atSentences && end - from <= longestSentence && isUnquoted(text.slice(from, end))) return end
  }
}

/** Whether a line or a sentence may end at an index or later. */
const hasEnd = (text: string, from: number): boolean => {
  ends.lastIndex = from
  return ends.test(text)
}

/** The end of a line, or the space after a sentence. */
const ends = /\n|\r\n|\r(?=[^\n])|(?<=[a-z)]{2}[.!?]) (?=[A-Z])/g

/** The characters before the space of a sentence's end that say so. */
const beforeSpace = 3

const longestSentence = 2048

/** Whether no quote is open at the end of a text. */
const isUnquoted = (text: string): boolean =>
  text.split('"').length % 2 === 1 && text.split("`").length % 2 === 1

/** The start of the last word, which may go on. It is the text's length if no word does, as after a letter that no token has. */
const startOfLastWord = (text: string): number => {
  let start = text.length
  while (start > 0) {
    const code = text.charCodeAt(start - 1)
    if (code <= 32 || code >= 127) break
    start -= 1
  }
  return start
}

/** Whether what follows an index is a row of dots or of lines, which is no part of a word, or nothing. */
const isOfRow = (text: string, from: number): boolean => {
  for (let at = from; at < text.length; at += 1) if (!".=#*~_".includes(text.charAt(at))) return false
  return true
}

/** Longer than each mark, and than a word that is too short to be a token. */
const longestMark = 40

/** The rules of a scrubber: known values, known paths, and the layers that recognize others. */
export interface Rules {
  /** The values of secrets. */
  readonly values: KnownValues
  /** Paths of the host and what is shown instead. */
  readonly paths: KnownValues
  /** The layers that recognize secrets by their form. */
  readonly layers: Layers
}

/** Receives a text in chunks and returns it without known values, recognized secrets and known paths. */
export class TextScrubber {
  readonly #values: KnownScrubber
  readonly #before: KnownScrubber
  readonly #fields: JsonFields | undefined
  readonly #lines: LineScrubber
  readonly #after: KnownScrubber

  constructor({ layers, paths, values }: Rules, found?: (type: string) => void) {
    this.#values = new KnownScrubber(values, found)
    // A path is replaced before the layers judge the text around it, and once more if it ends where a secret was.
    this.#before = new KnownScrubber(paths)
    if (layers !== "none") this.#fields = new JsonFields(found)
    this.#lines = new LineScrubber(layers, found)
    this.#after = new KnownScrubber(paths)
  }

  /** Returns what is certain after a further chunk. */
  push(chunk: string): string {
    const known = this.#before.push(this.#values.push(chunk))
    return this.#after.push(this.#lines.push(this.#fields?.push(known) ?? known))
  }

  /** Returns what was held back at the end of the text. */
  end(): string {
    const known = this.#before.push(this.#values.end()) + this.#before.end()
    const fields = this.#fields === undefined ? known : this.#fields.push(known) + this.#fields.end()
    const rest = this.#lines.push(fields) + this.#lines.end()
    return this.#after.push(rest) + this.#after.end()
  }
}

/** Removes known values, recognized secrets and known paths from a whole text. */
export const scrubText = (text: string, rules: Rules, found?: (type: string) => void): string => {
  const knowsNothing = rules.values.isEmpty && rules.paths.isEmpty
  // Most texts hold nothing.
  if (knowsNothing && (rules.layers === "none" || text.length < shortestLine || !mayHoldSecret(text)))
    return text
  const scrubber = new TextScrubber(rules, found)
  const out = scrubber.push(text)
  return out + scrubber.end()
}
