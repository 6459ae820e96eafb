/**
 * Finds the secrets of JSON that the structure around them shows: the items of a list under a name, the value of a pair
 * `{ "name": …, "value": … }`, the item of a list after its name, the data of a Kubernetes Secret. A text that is no JSON passes unchanged.
 */
import { isEncodedSecret } from "./encoded.ts"
import { type KeyKind, kindOf, secretWordsAndVendors } from "./keys.ts"
import { addValue } from "./keyValues.ts"
import { Line } from "./Line.ts"
import { placeholder, type Span } from "./span.ts"
import { isSecret } from "./values.ts"

/** A name that names a secret, and what it says about its value. */
interface Name {
  readonly text: string
  readonly kind: KeyKind
  /** Whether it stands for the fields of a Kubernetes Secret's data. */
  readonly isEncoded?: boolean
}

/** A string. Positions are in all of the text. */
interface Value {
  readonly start: number
  readonly end: number
  /** Its text as JSON writes it, without quotes. */
  readonly raw: string
}

/** An object or a list that is not closed. */
interface Frame {
  readonly isList: boolean
  /** The name under which it stands. */
  readonly name: Name | undefined
  /** What follows in an object. */
  next: "key" | "colon" | "value" | "comma"
  /** The key of the field that is read. */
  key: string
  /** The name in the field `name` of a pair. */
  pair: Name | undefined
  /** Whether a manifest of Kubernetes' core group was recognized. */
  isManifest: boolean
  /** The number of items before the one that is read, and the text of the one before it. */
  count: number
  previous: string | undefined
}

/** A string that is read. */
interface Reading {
  readonly start: number
  readonly isKey: boolean
  /** The name that may make a secret of it. */
  readonly name: Name | undefined
  /** Whether such a name may follow. */
  readonly mayWait: boolean
  /** How much of its text matters, and the text so far. */
  readonly longest: number
  text: string
}

const longestName = 100
const longestValue = 8192
/** The longest distance between a value of a pair and a name after it. */
const longestWait = 1024

const nameFields = /^(?:name|key|field|header|variable|parameter|option|env|label)$|(?:Name|Key|_name|_key)$/i
const waitingFields = /^(?:val|values?)$|(?:Value|_value)$/i
/** Fields whose name says nothing about what they contain. */
const valueFields =
  /^(?:val|values?|raw|plain|plaintext|data|content|default|current|text)$|(?:Value|_value)$/i

/** Receives a text in chunks and returns it without the secrets of the JSON in it. JSON begins at the beginning of a line. */
export class JsonFields {
  #text = ""
  /** The position of `#text` in all of the text, and how much of `#text` was read. */
  #base = 0
  #at = 0
  #isLineStart = true
  readonly #frames: Array<Frame> = []
  #reading: Reading | undefined
  /** The last value of a pair whose name may follow. */
  #waiting: (Value & { readonly of: Frame }) | undefined
  #edits: Array<{ readonly start: number; readonly end: number; readonly text: string }> = []
  readonly #found: ((type: string) => void) | undefined

  constructor(found?: (type: string) => void) {
    this.#found = found
  }

  /** Returns what is certain after a further chunk. What is held back is shorter than a value that can be a secret. */
  push(chunk: string): string {
    if (this.#frames.length === 0 && !this.#isLineStart && !chunk.includes("\n")) {
      this.#base += chunk.length
      return chunk
    }
    this.#text += chunk
    while (this.#at < this.#text.length) {
      const isRead =
        this.#frames.length === 0
          ? this.#outside()
          : this.#reading === undefined
            ? this.#inside()
            : this.#string(this.#reading)
      if (!isRead) break
    }
    return this.#released(this.#certain())
  }

  /** Returns what was held back. */
  end(): string {
    return this.#released(this.#text.length)
  }

  get #frame(): Frame | undefined {
    return this.#frames.at(-1)
  }

  /** Reads up to the next line that begins with a bracket. */
  #outside(): true {
    if (this.#isLineStart) {
      space.lastIndex = this.#at
      space.test(this.#text)
      this.#at = space.lastIndex
      if (this.#at === this.#text.length) return true
      this.#isLineStart = false
      const first = this.#text[this.#at]
      if (first === "{" || first === "[") {
        this.#open(first === "[", undefined)
        this.#at += 1
        return true
      }
    }
    const end = this.#text.indexOf("\n", this.#at)
    this.#at = end === -1 ? this.#text.length : end + 1
    this.#isLineStart = end !== -1
    return true
  }

  /** Reads spaces, a number or a word, or another token outside of strings. */
  #inside(): true {
    const frame = this.#frame!
    spaces.lastIndex = this.#at
    spaces.test(this.#text)
    const from = spaces.lastIndex
    word.lastIndex = from
    if (word.test(this.#text)) {
      if (!frame.isList && (frame.next === "key" || frame.next === "colon")) return this.#leave()
      this.#ended(frame, undefined)
      this.#at = word.lastIndex
      return true
    }
    this.#at = from
    const token = this.#text[from]
    if (token === undefined) return true
    const isValue = frame.isList || frame.next === "value"
    if (token === "{" || token === "[") {
      if (!isValue) return this.#leave()
      this.#open(token === "[", this.#nameOfNext(frame))
    } else if (token === "}" || token === "]") {
      if (frame.isList !== (token === "]")) return this.#leave()
      this.#frames.pop()
      if (this.#waiting?.of === frame) this.#waiting = undefined
      if (this.#frame !== undefined) this.#ended(this.#frame, undefined)
    } else if (token === ":") {
      if (frame.isList || frame.next !== "colon") return this.#leave()
      frame.next = "value"
    } else if (token === ",") {
      frame.next = "key"
      frame.count += 1
    } else if (token === '"' && (isValue || frame.next === "key")) this.#begin(frame, isValue)
    else return this.#leave()
    this.#at += 1
    return true
  }

  #begin(frame: Frame, isValue: boolean): void {
    const name = isValue ? this.#nameOfNext(frame) : undefined
    const mayWait = isValue && name === undefined && !frame.isList && waitingFields.test(frame.key)
    this.#reading = {
      start: this.#base + this.#at + 1,
      isKey: !isValue,
      name,
      mayWait,
      longest: name !== undefined ? longestValue : mayWait ? longestWait : longestName,
      text: ""
    }
  }

  /** Reads a part of a string. Returns false if it needs the next chunk. */
  #string(reading: Reading): boolean {
    inString.lastIndex = this.#at
    inString.test(this.#text)
    const end = inString.lastIndex
    const next = this.#text[end]
    const isCut = next === "\\" && end + 1 === this.#text.length
    const to = next === "\\" && !isCut ? end + 2 : end
    const room = reading.longest + 1 - reading.text.length
    if (room > 0) reading.text += this.#text.slice(this.#at, Math.min(to, this.#at + room))
    this.#at = to
    if (next === undefined || isCut) return false
    if (next === "\\") return true
    this.#reading = undefined
    if (next !== '"') return this.#leave()
    this.#at += 1
    this.#take(reading, this.#base + end)
    return true
  }

  /** Takes a complete string as a key, a name or a value. */
  #take({ isKey, longest, mayWait, name, start, text: raw }: Reading, end: number): void {
    const frame = this.#frame!
    if (isKey) {
      frame.key = raw
      frame.next = "colon"
      return
    }
    if (raw.length <= longest) {
      if (name !== undefined) this.#redact(name, { start, end, raw })
      else if (mayWait) this.#waiting = { start, end, raw, of: frame }
      else if (isManifestField(frame.key, raw)) frame.isManifest = true
      else if (!frame.isList && nameFields.test(frame.key)) {
        frame.pair = nameOf(raw)
        const waiting = this.#waiting
        if (waiting?.of === frame) {
          this.#waiting = undefined
          if (frame.pair !== undefined && end - waiting.start <= longestWait)
            this.#redact(frame.pair, waiting)
        }
      }
    }
    this.#ended(frame, raw)
  }

  #ended(frame: Frame, text: string | undefined): void {
    frame.next = "comma"
    frame.previous = text
  }

  /** The name that the next value of an object or a list has. */
  #nameOfNext({ count, isList, isManifest, key, name, pair, previous }: Frame): Name | undefined {
    if (name?.isEncoded === true) return name
    if (!isList && isManifest && key === "data") return encodedData
    if (!isList) return nameOf(key) ?? (valueFields.test(key) ? (pair ?? name) : undefined)
    if (name !== undefined || previous === undefined) return name
    // Lists of names and values in turn, and lists of arguments.
    return count % 2 === 1 || previous.startsWith("-")
      ? nameOf(previous.replace(/^-{1,2}|[:=]$/g, ""))
      : undefined
  }

  #redact(name: Name, { end, raw, start }: Value): void {
    if (raw.includes("[REDACTED:")) return
    const text = cleaned(name, raw, this.#found)
    if (text !== undefined) this.#edits.push({ start, end, text })
  }

  #open(isList: boolean, name: Name | undefined): void {
    this.#frames.push({
      isList,
      name,
      next: "key",
      key: "",
      pair: undefined,
      isManifest: false,
      count: 0,
      previous: undefined
    })
  }

  /** Reads the rest of the line as other text. */
  #leave(): true {
    this.#frames.length = 0
    this.#reading = undefined
    this.#waiting = undefined
    return true
  }

  /** How much of the text no further chunk can change. */
  #certain(): number {
    const reading = this.#reading
    const at = this.#base + this.#at
    const isJudged = reading !== undefined && (reading.name !== undefined || reading.mayWait)
    let least = isJudged && at - reading.start <= reading.longest ? reading.start : at
    const waiting = this.#waiting
    if (waiting !== undefined && at - waiting.start <= longestWait) least = Math.min(least, waiting.start)
    return least - this.#base
  }

  #released(end: number): string {
    let out = ""
    let from = 0
    const edits = this.#edits.sort((a, b) => a.start - b.start)
    this.#edits = edits.filter((edit) => edit.start - this.#base >= end)
    for (const edit of edits) {
      if (edit.start - this.#base >= end) break
      out += this.#text.slice(from, edit.start - this.#base) + edit.text
      from = edit.end - this.#base
    }
    out += this.#text.slice(from, end)
    this.#text = this.#text.slice(end)
    this.#base += end
    this.#at -= end
    return out
  }
}

const space = /[^\S\n]*/y
/** A part of each name that names a secret. */
const anyName = new RegExp(secretWordsAndVendors.source, "i")

/** Removes the secrets of a JSON text that the names of its fields show. */
export const scrubFields = (json: string): string => {
  if (!anyName.test(json)) return json
  const fields = new JsonFields()
  return fields.push(json) + fields.end()
}

const spaces = /\s*/y
const word = /[\w.+-]+/y
const inString = /[^"\\\n]*/y

const encodedData: Name = { text: "data", kind: "token", isEncoded: true }

const isManifestField = (key: string, value: string): boolean =>
  (key === "apiVersion" && value === "v1") || (key === "kind" && value === "Secret")

const nameOf = (text: string): Name | undefined => {
  if (text.length > longestName || text.includes("[REDACTED:")) return undefined
  const kind = kindOf(text)
  return kind === undefined ? undefined : { text, kind }
}

/** The content of a JSON string without the secret that its name says it is, or undefined if it is none. */
const cleaned = (
  { isEncoded, kind, text: name }: Name,
  raw: string,
  found: ((type: string) => void) | undefined
): string | undefined => {
  const text = unescaped(raw)
  if (text === undefined) return undefined
  const spans: Array<Span> = []
  if (isEncoded === true) {
    if (isEncodedSecret(text)) spans.push({ start: 0, end: text.length, type: "secret" })
  } else if (kind === "authorization" || kind === "cookie")
    addValue(new Line(text), name, kind, { at: 0, literal: false }, spans)
  else if (isSecret(kind, name, { text, quoted: true, literal: false, assigned: false }))
    spans.push({ start: 0, end: text.length, type: kind === "password" ? "password" : "secret" })
  if (spans.length === 0) return undefined
  let out = ""
  let from = 0
  for (const { end, start, type } of spans) {
    found?.(type)
    out += text.slice(from, start) + placeholder(type)
    from = end
  }
  return JSON.stringify(out + text.slice(from)).slice(1, -1)
}

const unescaped = (raw: string): string | undefined => {
  if (!raw.includes("\\")) return raw
  try {
    return JSON.parse(`"${raw}"`) as string
  } catch {
    return undefined
  }
}
