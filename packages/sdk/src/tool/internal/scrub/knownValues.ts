/**
 * Removes texts that are known: the values of secrets in every form that programs write them in, and paths of the host.
 */
import * as Base64 from "effect/encoding/Base64"
import { shortestSecret } from "../../../model/internal/knownSecrets.ts"
import {
  afterGaps,
  earlyLineBreak,
  endWithGaps,
  gapStarts,
  longestWithGaps,
  shortestWithGaps
} from "./gaps.ts"
import { markRules, prefixRules } from "./vendorRules.ts"

/** The types of the secrets that the other layers find. */
const types = new Set([
  "password",
  "secret",
  "authorization",
  "cookie",
  "private-key",
  "seed-phrase",
  "random",
  ...[...prefixRules, ...markRules].map(([type]) => type)
])

/** A text that is replaced wherever it occurs. */
export interface Known {
  readonly text: string
  readonly show: string
  /** The type of the secret, for the count. Undefined for a path. */
  readonly type?: string
}

const shortestLine = 16
const longestPiece = 1024

/**
 * The forms of a secret: as it is, escaped for JSON, HTML and XML, addresses, shells, SQL and CSV, as programs print it in quotes, in hex, and in
 * base64 at each offset.
 */
export const formsOf = (given: string): ReadonlyArray<string> => {
  // `encodeURIComponent` throws for a lone surrogate.
  const secret = given.toWellFormed()
  const texts = new Set([given, secret, secret.replaceAll("\r\n", "\n"), secret.replaceAll("\n", "\r\n")])
  const lines = secret.split(/\r?\n/)
  if (lines.length > 1)
    for (const line of lines) if (line.trim().length >= shortestLine) texts.add(line.trim())
  const forms = new Set<string>()
  for (const text of texts) {
    const json = inJson(text)
    const nested = inJson(json)
    const url = encodeURIComponent(text.toWellFormed())
    const strict = url.replace(/[!'()*]/g, (character) => percent(character.charCodeAt(0)))
    const bytes = new TextEncoder().encode(text)
    const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")
    for (const form of [
      text,
      json,
      json.replaceAll("/", "\\/"),
      escapedAscii(json),
      nested,
      inJson(nested),
      ...unicodeEscaped(json),
      url,
      ...inAddress(text),
      encodeURIComponent(url),
      encodeURIComponent(strict),
      strict,
      lowerEscapes(url),
      lowerEscapes(strict),
      strict.replaceAll("%20", "+"),
      strict.replaceAll("%20", "+").replaceAll("%2A", "*").replaceAll("~", "%7E"),
      Array.from(bytes, percent).join(""),
      ...escapedHtml(text),
      ...inShell(text),
      text.replaceAll("'", "''"),
      text.replaceAll('"', '""'),
      text.replaceAll("\\", "\\\\").replaceAll("'", "\\'"),
      hex,
      hex.toUpperCase(),
      ...base64Of(bytes),
      ...base64Of(new TextEncoder().encode(json))
    ])
      forms.add(form)
  }
  return [...forms].filter((form) => form.length >= shortestSecret)
}

const percent = (byte: number): string => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`

const lowerEscapes = (url: string): string => url.replace(/%[0-9A-F]{2}/g, (escape) => escape.toLowerCase())

const escapedAscii = (json: string): string =>
  json.replace(
    /[\u0080-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`
  )

const inJson = (text: string): string => JSON.stringify(text).slice(1, -1)

/** JSON as encoders write it whose output may be put into a page: Go, Rails and PHP. */
const unicodeEscaped = (json: string): ReadonlyArray<string> =>
  [/[&<>]/g, /[&<>']/g].flatMap((escaped) => {
    const form = json.replace(escaped, (character) => `\\u00${character.charCodeAt(0).toString(16)}`)
    return [
      form,
      form.replace(/\\u00[0-9a-f]{2}/g, (escape) => `\\u${escape.slice(2).toUpperCase()}`),
      form.replaceAll("/", "\\/")
    ]
  })

/** A text with the escapes of HTML and XML, which programs write differently for quotes and `>`. */
const escapedHtml = (given: string): ReadonlyArray<string> => {
  const text = given.replaceAll("&", "&amp;").replaceAll("<", "&lt;")
  return ["&gt;", ">"].flatMap((greater) =>
    ["&quot;", "&#34;", '"'].flatMap((double) =>
      ["&#39;", "&#039;", "&#x27;", "&apos;", "'"].map((single) =>
        text.replaceAll(">", greater).replaceAll('"', double).replaceAll("'", single)
      )
    )
  )
}

/** The user, the path and the query of an address, as `URL` writes them, and the whole as `encodeURI` does. */
const inAddress = (given: string): ReadonlyArray<string> => {
  // `encodeURI` throws for a lone surrogate.
  const text = given.toWellFormed()
  const url = new URL("https://host/")
  url.password = text
  const forms = [url.password, encodeURI(text)]
  url.pathname = `/${text}`
  url.search = text
  url.hash = text
  forms.push(url.pathname.slice(1), url.search.slice(1), url.hash.slice(1))
  return forms.flatMap((form) => [form, lowerEscapes(form)])
}

/** A text as shells print and take it: in double quotes, with a backslash before each special character, and with quotes in single quotes. */
const inShell = (text: string): ReadonlyArray<string> => [
  text.replace(/["$`\\]/g, "\\$&"),
  text.replace(/["$`\\!]/g, "\\$&"),
  text.replace(/[ !"#$&'()*,;<>?[\\\]^`{|}~]/g, "\\$&"),
  text.replace(/[^\w./:=@%+,-]/g, "\\$&"),
  text.replaceAll("'", `'\\''`),
  text.replaceAll("'", `'"'"'`)
]

/** The base64 of bytes within other bytes: the characters that the bytes alone decide, for each offset in a group of three. */
const base64Of = (bytes: Uint8Array): ReadonlyArray<string> => {
  const whole = Base64.encode(bytes)
  const forms = [whole, whole.replace(/=+$/, "")]
  for (const offset of [0, 1, 2]) {
    const padded = new Uint8Array(offset + bytes.length)
    padded.set(bytes, offset)
    const first = offset === 0 ? 0 : offset + 1
    forms.push(Base64.encode(padded).slice(first, Math.floor((padded.length * 8) / 6)))
  }
  return forms.flatMap((form) => [form, form.replaceAll("+", "-").replaceAll("/", "_")])
}

/** Divides a long text, so that little is held back while a text is streamed. */
const pieces = (known: Known): ReadonlyArray<Known> => {
  const count = Math.ceil(known.text.length / longestPiece)
  if (count === 1) return [known]
  const size = Math.ceil(known.text.length / count)
  return Array.from({ length: count }, (_, index) => ({
    ...known,
    text: known.text.slice(index * size, (index + 1) * size)
  }))
}

const bracket = 91
const placeholder = /\[REDACTED:([a-z0-9-]{1,80})\]/y
const begunPlaceholder = /^\[(?:R(?:E(?:D(?:A(?:C(?:T(?:E(?:D(?::[a-z0-9-]{0,80})?)?)?)?)?)?)?)?)?$/
const isWord = /[\w-]/
/** A prime, so that starts with equal first or second characters differ. */
const startBits = 65_521
const firstBits = 1021

/** Texts with the same first two characters. */
interface Bucket {
  readonly byText: Map<string, Known>
  /** The lengths of the texts, the longest first. There are few, also of many tokens that one service has made. */
  lengths: ReadonlyArray<number>
}

/** An occurrence of a known text, and where it ends. */
interface Found {
  readonly known: Known
  readonly end: number
}

/** Known texts, found by their first two characters. */
export class KnownValues {
  readonly #byStart = new Map<number, Bucket>()
  readonly #firsts = new Uint8Array(firstBits)
  /** The starts of all texts, also with a gap after the first character, each as one bit: most places of a text are no start. */
  readonly #starts = new Uint8Array(startBits)
  readonly types = new Set<string>()
  longest = 0

  constructor(known: Iterable<Known> = []) {
    this.add(known)
  }

  add(known: Iterable<Known>): void {
    for (const one of [...known].flatMap(pieces)) {
      const { length } = one.text
      if (length < 2) continue
      const start = startOf(one.text, 0)
      const bucket: Bucket = this.#byStart.get(start) ?? { byText: new Map(), lengths: [] }
      if (bucket.byText.has(one.text)) continue
      bucket.byText.set(one.text, one)
      if (!bucket.lengths.includes(length)) bucket.lengths = [...bucket.lengths, length].sort((a, b) => b - a)
      this.#byStart.set(start, bucket)
      this.#firsts[one.text.charCodeAt(0) % firstBits] = 1
      this.#starts[start % startBits] = 1
      if (one.type !== undefined && length >= shortestWithGaps)
        for (const gap of gapStarts) this.#starts[(one.text.charCodeAt(0) * 65_536 + gap) % startBits] = 1
      if (one.type !== undefined) this.types.add(one.type)
      this.longest = Math.max(this.longest, length)
    }
  }

  /** Removes texts that were added. */
  remove(known: Iterable<Known>): void {
    for (const { text } of [...known].flatMap(pieces))
      this.#byStart.get(startOf(text, 0))?.byText.delete(text)
  }

  /** Whether a known text occurs in a text. */
  isIn(text: string): boolean {
    let code = text.charCodeAt(0)
    for (let at = 1; at < text.length; at += 1) {
      const next = text.charCodeAt(at)
      const isStart = this.#starts[(code * 65_536 + next) % startBits] === 1
      if (isStart && this.at(text, at - 1, true) !== undefined) return true
      code = next
    }
    return false
  }

  get isEmpty(): boolean {
    return this.#byStart.size === 0
  }

  /** The end of the text before which no known text and no placeholder can begin; -1 if one may begin before the last character. */
  freeUntil(text: string): number {
    const last = text.length - 1
    let code = text.charCodeAt(0)
    for (let at = 1; at <= last; at += 1) {
      const next = text.charCodeAt(at)
      if (code === bracket || this.#starts[(code * 65_536 + next) % startBits] === 1) return -1
      code = next
    }
    return code === bracket || this.#firsts[code % firstBits] === 1 ? last : text.length
  }

  /** The longest known text at a position. One without gaps comes first. */
  at(text: string, at: number, ended: boolean): Found | "undecided" | undefined {
    const start = at + 1 < text.length ? startOf(text, at) : 0
    if (this.#starts[start % startBits] !== 1) return undefined
    const bucket = this.#byStart.get(start)
    for (const length of bucket?.lengths ?? []) {
      const known = bucket?.byText.get(text.slice(at, at + length))
      if (known === undefined) continue
      const end = at + length
      if (known.type !== undefined) return { known, end }
      // A path ends where its last name ends.
      if (end === text.length && !ended) return "undecided"
      if (!isWord.test(text.charAt(end))) return { known, end }
    }
    return this.#withGaps(text, at)
  }

  /** The longest known text that begins at a position and has gaps in it. */
  #withGaps(text: string, at: number): Found | undefined {
    const second = afterGaps(text, at + 1)
    if (second >= text.length) return undefined
    const bucket = this.#byStart.get(text.charCodeAt(at) * 65_536 + text.charCodeAt(second))
    if (bucket === undefined) return undefined
    let found: Found | undefined
    for (const known of bucket.byText.values()) {
      if (known.type === undefined || known.text.length < shortestWithGaps) continue
      if (found !== undefined && found.known.text.length >= known.text.length) continue
      const end = endWithGaps(text, at, known.text)
      if (end !== -1 && end <= text.length) found = { known, end }
    }
    return found
  }

  /** Whether a known text may begin at a position and be complete only with the text that follows. */
  mayBegin(text: string, at: number): boolean {
    const left = text.length - at
    if (this.#firsts[text.charCodeAt(at) % firstBits] === 0) return false
    if (left === 1) return true
    const second = afterGaps(text, at + 1)
    // A gap may go on, and the second character follows it.
    if (second >= text.length) return true
    return this.#mayFollow(text, at, at + 1) || (second !== at + 1 && this.#mayFollow(text, at, second))
  }

  #mayFollow(text: string, at: number, second: number): boolean {
    const bucket = this.#byStart.get(text.charCodeAt(at) * 65_536 + text.charCodeAt(second))
    if (bucket === undefined) return false
    const left = text.length - at
    for (const known of bucket.byText.values()) {
      if (known.type !== undefined && known.text.length >= shortestWithGaps) {
        if (endWithGaps(text, at, known.text) > text.length) return true
      } else if (known.text.length > left && known.text.startsWith(text.slice(at))) return true
    }
    return false
  }
}

const startOf = (text: string, at: number): number => text.charCodeAt(at) * 65_536 + text.charCodeAt(at + 1)

/** Replaces known texts in a text that is received in chunks. */
export class KnownScrubber {
  readonly #values: KnownValues
  readonly #found: ((type: string) => void) | undefined
  #rest = ""
  /** How much of the rest was returned, since nothing that follows can change it. */
  #returned = 0
  /** What the last replacement shows, if nothing followed it: the next piece of the same secret shows nothing. */
  #last: string | undefined

  constructor(values: KnownValues, found?: (type: string) => void) {
    this.#values = values
    this.#found = found
  }

  push(chunk: string): string {
    if (this.#values.isEmpty) return chunk
    const text = this.#rest + chunk
    // Most chunks of a response are a word without secrets.
    const end = this.#values.freeUntil(text)
    if (end < 1) return this.#take(text, false)
    const out = text.slice(this.#returned, end)
    this.#rest = text.slice(end)
    this.#returned = Math.max(0, this.#returned - end)
    this.#last = undefined
    return out
  }

  end(): string {
    const out = this.#take(this.#rest, true)
    this.#last = undefined
    return out
  }

  #take(text: string, ended: boolean): string {
    let limit = ended ? text.length : this.#undecidedFrom(text, 0)
    let out = ""
    let from = 0
    let at = 0
    while (at < limit) {
      if (text.charCodeAt(at) === bracket) {
        placeholder.lastIndex = at
        const type = placeholder.exec(text)?.[1]
        if (type !== undefined && (types.has(type) || this.#values.types.has(type))) {
          at = placeholder.lastIndex
          this.#last = undefined
          continue
        }
      }
      const found = this.#values.at(text, at, ended)
      if (found === "undecided") break
      if (found === undefined) {
        at += 1
        this.#last = undefined
        continue
      }
      const { end, known } = found
      out += text.slice(from, this.#keptUntil(text, at, end))
      if (known.type === undefined || this.#last !== known.show) {
        out += known.show
        if (known.type !== undefined) this.#found?.(known.type)
      }
      this.#last = known.type === undefined ? undefined : known.show
      at = end
      from = at
      // What is inside of an occurrence begins no other one.
      if (at > limit) limit = this.#undecidedFrom(text, at)
    }
    const end = Math.max(at, from)
    out += text.slice(from, end)
    this.#rest = text.slice(end)
    const certain = this.#certain(this.#rest)
    const unreturned = (out + this.#rest.slice(0, certain)).slice(this.#returned)
    this.#returned = Math.max(certain, this.#returned - out.length)
    return unreturned
  }

  /** Where the replacement of an occurrence begins. What continues the secret before it is replaced as a whole. */
  #keptUntil(text: string, at: number, end: number): number {
    const kept = this.#last === undefined ? earlyLineBreak(text, at) : -1
    return kept < end ? Math.max(at, kept) : at
  }

  /** How much of the rest stays in every case: what {@link #keptUntil} keeps of each occurrence that may begin in it. */
  #certain(rest: string): number {
    const end = rest === "" || this.#last !== undefined ? -1 : earlyLineBreak(rest, 0)
    for (let at = 1; at < end; at += 1)
      if (this.#values.mayBegin(rest, at) && earlyLineBreak(rest, at) !== end) return 0
    return Math.max(0, end)
  }

  /** The first position, at or after another one, from which what follows may change what is found. */
  #undecidedFrom(text: string, from: number): number {
    const longest = Math.max(longestWithGaps(this.#values.longest), 100)
    for (let at = Math.max(from, text.length - longest); at < text.length; at += 1) {
      if (this.#values.mayBegin(text, at)) return at
      if (text.charCodeAt(at) === bracket && begunPlaceholder.test(text.slice(at))) return at
    }
    return text.length
  }
}
