/**
 * Finds secrets by the name before them: assignments, fields, flags, headers, parameters and attributes.
 */
import { type KeyKind, kindOf, secretWords, secretWordsAndVendors } from "./keys.ts"
import type { Line } from "./Line.ts"
import { isPlaceholder, isWordy } from "./looks.ts"
import type { Span } from "./span.ts"
import { isMixedLetters, isSecret } from "./values.ts"

const longestName = 80
const longestValue = 4096

/** Colors of a terminal. */
const color = String.raw`(?:\x1b\[[0-9;]{0,12}m){0,3}`
const quote = String.raw`(?:\\{0,7}["'\x60]|&quot;|&#39;|%22|%27)`

/** Between a name and its value: a sign of assignment, with quotes, colors and a type around it. */
const assigned = new RegExp(
  String.raw`${quote}?\]?${color}[ \t]{0,20}(?::[ \t]{0,3}(?:&?(?:'static )?[A-Za-z][\w.<>|\[\]]{0,30})[ \t]{1,3}=|:{1,3}=|\?{1,2}=|(?:\|{1,2}|[.+])=(?=[ \t]{0,20}["'\x60])|=>|={1,3}|::?|%3[AaDd]|\()${color}[ \t]{0,20}${color}(?:[rbuf@LN](?=["']))?(?:[&!][\w./!-]{1,40}[ \t]{1,4})?`,
  "y"
)
/** Between a name and its value with the type between them: `var token string = "…"`. */
const typed =
  /[ \t]{1,4}(?:string|str|String|text|varchar|VARCHAR|TEXT)(?:\(\d{1,5}\))?[ \t]{0,4}(?::?=|DEFAULT[ \t])[ \t]{0,4}(?=["'`])/y
/** Between a name that is itself a value and the value that belongs to it: `name="X" value="…"`. */
const paired = new RegExp(
  String.raw`(?:${quote}[ \t]{0,4},?|,)[ \t]{0,4}${quote}?[Vv]alue${quote}?[ \t]{0,3}[:=][ \t]{0,3}`,
  "y"
)
/** Between the start tag of XML and its content. */
const tag = /(?:\s[^<>]{0,200})?>[ \t]{0,4}/y
const word = /^[^\s<]{4,79}<\//
const spaces = /[ \t]{1,8}(?!-)/y
const said = /[ \t](?:is|was|to|as|of|ist|lautet|es|est|è|é)[: \t][ \t]{0,3}/y
/** The end of the emphasis of Markdown. */
const emphasis = /:?\*{1,2}:?[ \t]{1,4}/y
/** Between the cells of a table, and before a quoted value. */
const cell = /[ \t]{1,40}\|[ \t]{1,40}|[ \t]{1,4}(?=["'`])|(?:\t|[ ]{2,40})(?=\S)/y
/** Between the name and the value of a command that sets a variable. */
const single = /[ \t](?=[^\s=:|&;])/y
const settings =
  /(?:^|[\s;])(?:set(?: -{1,2}[a-z]+){1,3}|setenv|setx|SetEnv|ENV|fastcgi_param|config set)[ \t]+$/

const isSetBefore = (text: string, start: number): boolean =>
  settings.test(text.slice(Math.max(0, start - 40), start))

/** The next argument in a list: `["--token", "…"]`, `define("NAME", "…")`. */
const listed = /["'`][ \t]{0,4},[ \t]{0,4}(?=["'`])/y
/** A name that ends with the word for a secret. */
const wholeName = /(?:pass|pwd|passw(?:or)?d|passphrase|secret|token|key)$/i
const opening = new RegExp(quote, "y")

/** Adds the secrets of a line that have a name. */
export const findKeyValues = (line: Line, hasLongWord: boolean, spans: Array<Span>): void => {
  const { text } = line
  const keywords = hasLongWord ? secretWordsAndVendors : secretWords
  keywords.lastIndex = 0
  for (let found = keywords.exec(text); found !== null; found = keywords.exec(text)) {
    const start = startOfName(text, found.index)
    const end = endOfName(text, keywords.lastIndex)
    keywords.lastIndex = end
    if (end - start > longestName) continue
    const after = valueAt(text, start, end)
    if (after === undefined) continue
    const name = text.slice(start, end)
    const kind = kindOf(name) ?? kindOfKey(text, start, name)
    if (kind === undefined) continue
    keywords.lastIndex = Math.max(end, addValue(line, name, kind, after, spans))
  }
}

/** The kind of a name that is two words, such as `API key`. */
const kindOfKey = (text: string, start: number, name: string): KeyKind | undefined => {
  if (!/^keys?$/i.test(name)) return undefined
  const before = /([A-Za-z]{3,12})[ ]$/.exec(text.slice(Math.max(0, start - 14), start))?.[1]
  return before === undefined ? undefined : kindOf(`${before}_key`)
}

/**
 * Adds the value of a name that stands before it in another line or outside of the text, if it looks like a secret of the kind. Returns the
 * end of the value.
 */
export const addValue = (
  line: Line,
  name: string,
  kind: KeyKind,
  { assigned = false, at, isColon = false, literal, spoken }: Place,
  spans: Array<Span>
): number => {
  const { text } = line
  if (kind === "authorization") return addAuthorization(text, at, spans)
  if (kind === "cookie") return addCookies(text, at, spans)
  opening.lastIndex = at
  const opened = opening.exec(text)
  if (opened !== null && line.closes(at, opened[0])) return at
  const from = opened === null ? at : opening.lastIndex
  const plain = opened === null ? line.endOfPlain(from, literal) : undefined
  const to =
    plain === undefined
      ? line.endOfQuoted(from, opened![0], longestValue)
      : withEnd(text, plain, kind, isColon)
  if (to === from || to - from > longestValue) return from
  const value = text.slice(from, to)
  if (
    spoken &&
    (!(/[0-9]/.test(value) || isMixedLetters(value)) ||
      /^(?:0x[0-9a-f]+|[\W\d]+)$/i.test(value) ||
      /(?:^|[^a-z])(?:pass|pin|pw)$/i.test(name))
  )
    return from
  const calls = opened === null && /[([]/.test(text.charAt(to)) && !literal
  if (calls || !isSecret(kind, name, { text: value, quoted: opened !== null, literal, assigned })) return from
  spans.push({ start: from, end: to, type: kind === "password" ? "password" : "secret" })
  return to
}

/** The end of a password without quotes, which may contain an ampersand after a colon, and end with an exclamation mark. */
const withEnd = (text: string, end: number, kind: KeyKind, isColon: boolean): number => {
  if (kind !== "password") return end
  let to = end
  if (isColon && text.charAt(to) === "&") {
    ampersand.lastIndex = to
    if (ampersand.test(text)) to = ampersand.lastIndex
  }
  exclamation.lastIndex = to
  return exclamation.test(text) ? exclamation.lastIndex : to
}

const ampersand = /(?:&(?!(?:quot|amp|lt|gt|apos|#\d{1,4});)[^\s"'`,;&<>|\\]{1,60})+/y
const exclamation = /!{1,4}(?=\s|$)/y

/** The start of a value, and facts about the text between its name and it. */
export interface Place {
  readonly at: number
  readonly literal: boolean
  /** Whether words or cells stand between the name and the value, so that only a value with a digit can be a secret. */
  readonly spoken?: boolean
  readonly assigned?: boolean
  /** Whether a colon and a space stand between them, as in YAML and in sentences. */
  readonly isColon?: boolean
}

const valueAt = (text: string, start: number, end: number): Place | undefined => {
  const before = text.charAt(start - 1)
  const flag = before === "-" || text.startsWith("--", start)
  paired.lastIndex = end
  if (paired.test(text)) {
    const at = paired.lastIndex
    // A password in a field of its own is never code, and a sentence is no password.
    const isWord = !/^["'`][^"'`\n]{0,80}\s/.test(text.slice(at, at + 82))
    return { at, literal: isWord && kindOf(text.slice(start, end)) === "password" }
  }
  typed.lastIndex = end
  if (typed.test(text)) return { at: typed.lastIndex, literal: false }
  emphasis.lastIndex = end
  if (emphasis.test(text)) return { at: emphasis.lastIndex, literal: false, spoken: true }
  assigned.lastIndex = end
  if (assigned.test(text)) {
    const at = assigned.lastIndex
    const sign = text.slice(end, at)
    if (
      sign.includes("(") &&
      !(
        /["'`]/.test(text.charAt(at)) &&
        /(?:passw(?:or)?d|passphrase|pwd|secret|token|key)$/i.test(text.slice(start, end))
      )
    )
      return undefined
    // The name is the whole left side of `NAME=value`, a flag, or a parameter of an address.
    const literal =
      sign === "=" &&
      (flag ||
        before === "?" ||
        before === "&" ||
        /^[A-Z][A-Z0-9_]*$/.test(text.slice(start, end)) ||
        isProperty(text, start, end))
    return { at, literal, assigned: sign === "=", isColon: /:\s$/.test(sign) }
  }
  if (before === "<" || (before === ":" && text.lastIndexOf("<", start) > start - 40)) {
    tag.lastIndex = end
    if (tag.test(text)) {
      const at = tag.lastIndex
      // A password in an element is never code, and a sentence is no password.
      return {
        at,
        literal: word.test(text.slice(at, at + 80)) && kindOf(text.slice(start, end)) === "password"
      }
    }
  }
  if (flag) {
    spaces.lastIndex = end
    if (spaces.test(text))
      return {
        at: spaces.lastIndex,
        literal: true,
        spoken: !/(?:pass|pin|pw)$/i.test(text.slice(start, end))
      }
  }
  single.lastIndex = end
  if (single.test(text) && isSetBefore(text, start)) return { at: single.lastIndex, literal: true }
  listed.lastIndex = end
  if (listed.test(text)) {
    const name = text.slice(start, end)
    const kind = kindOf(name)
    const isFirst = /\(["'`]$/.test(text.slice(Math.max(0, start - 2), start)) && wholeName.test(name)
    if (flag || /^[A-Z][A-Z0-9_]+$/.test(name) || (isFirst && (kind === "password" || kind === "token")))
      return { at: listed.lastIndex, literal: false, spoken: true }
  }
  cell.lastIndex = end
  if (cell.test(text)) return { at: cell.lastIndex, literal: false, spoken: true }
  said.lastIndex = end
  if (said.test(text)) return { at: said.lastIndex, literal: false, spoken: true }
  return undefined
}

/** Whether a line is a property with dots in its name, as `spring.datasource.password=x`. */
const isProperty = (text: string, start: number, end: number): boolean =>
  (start === 0 || text.charAt(start - 1) === "\n") && /^[\w-]+(?:\.[\w-]+)+$/.test(text.slice(start, end))

const isNameCode = (code: number): boolean =>
  (code >= 97 && code <= 122) ||
  (code >= 65 && code <= 90) ||
  (code >= 48 && code <= 57) ||
  code === 95 ||
  code === 45 ||
  code === 46 ||
  code === 36 ||
  (code >= 0xc0 && code < 0x3000)

const startOfName = (text: string, from: number): number => {
  let at = from
  const least = Math.max(0, from - longestName)
  while (at > least && isNameCode(text.charCodeAt(at - 1))) at -= 1
  // Dashes of a flag are not part of its name.
  while (at < from && (text.charCodeAt(at) === 45 || text.charCodeAt(at) === 46)) at += 1
  return at
}

const endOfName = (text: string, from: number): number => {
  let at = from
  const most = Math.min(text.length, from + longestName)
  while (at < most && isNameCode(text.charCodeAt(at))) at += 1
  return at
}

const scheme =
  /(?:\\{0,7}["'`])?[ \t]{0,5}(?:(?:bearer|basic|token|bot|apikey|api-key|digest|key|splunk|negotiate|ntlm|oauth|aws4-hmac-sha256|sso-key|genie-?key|klaviyo-api-key)[ \t]{1,5})?/iy
/** A scheme without digits before a credential with one. */
const otherScheme = new RegExp(
  String.raw`[A-Za-z][A-Za-z_-]{1,30}[ \t]{1,5}(?=[^\s"'\x60,;<>\\\x1b]{12,8000}(?:["'\x60\s]|$))(?=\S{0,60}[0-9])(?!\S{0,10}:\/\/)`,
  "y"
)
const credential = new RegExp(String.raw`[^\s"'\x60,;<>\\\x1b]{4,8000}`, "y")

/** Whether a value is the base64 of `user:password`. */
const isBasic = (scheme: string, value: string): boolean => {
  if (!/basic[ \t]+$/i.test(scheme)) return false
  try {
    return /^[^:\s]{1,200}:[^\r\n]+$/.test(atob(value))
  } catch {
    return false
  }
}

/** The parameters of a scheme that prove the secret. */
const proofs = /(?<=[\s,](?:response|mac|signature|oauth_signature|oauth_token)=["']?)([\w+/=%-]{16,1000})/gi

const addProofs = (text: string, at: number, spans: Array<Span>): void => {
  const rest = text.slice(at, at + 4096)
  if (!/^["'`\s]{0,4}[A-Za-z][\w-]{1,30}\s[^\s=]{1,40}=/.test(rest)) return
  for (const found of rest.matchAll(proofs)) {
    const start = at + found.index
    spans.push({ start, end: start + found[0].length, type: "authorization" })
  }
}

const addAuthorization = (text: string, at: number, spans: Array<Span>): number => {
  addProofs(text, at, spans)
  scheme.lastIndex = at
  scheme.test(text)
  const known = scheme.lastIndex === 0 ? at : scheme.lastIndex
  otherScheme.lastIndex = known
  const from = otherScheme.test(text) ? otherScheme.lastIndex : known
  credential.lastIndex = from
  if (!credential.test(text)) return at
  const value = text.slice(from, credential.lastIndex)
  if (isBasic(text.slice(at, from), value)) {
    spans.push({ start: from, end: credential.lastIndex, type: "authorization" })
    return credential.lastIndex
  }
  if (value.length < 8 || isPlaceholder(value) || /^(?:[$%{]|[a-z]+\(|https?:\/\/)/i.test(value)) return at
  if (isWordy(value) || (!/[0-9+=]/.test(value) && !/[a-z][A-Z]/.test(value))) return at
  spans.push({ start: from, end: credential.lastIndex, type: "authorization" })
  return credential.lastIndex
}

const cookies = /([\w!#$%&*+.^`|~-]{1,80})=([^\s;,"'\\]{8,4096})/g
const attributes = /^(?:path|expires|domain|max-age|samesite|priority)$/i

const addCookies = (text: string, at: number, spans: Array<Span>): number => {
  region.lastIndex = at
  const list = region.exec(text)?.[1] ?? ""
  const from = region.lastIndex - list.length
  for (const { 0: pair, 1: name, 2: value, index } of list.matchAll(cookies)) {
    if (name === undefined || value === undefined || attributes.test(name)) continue
    if (!/[0-9]/.test(value) || isPlaceholder(value)) continue
    const start = from + index + pair.length - value.length
    spans.push({ start, end: start + value.length, type: "cookie" })
  }
  return Math.max(at, region.lastIndex)
}

/** The cookies of a header: to a quote or the end of the line. */
const region = /(?:\\{0,7}["'`])?([^"'`\n]{0,8192})/y
