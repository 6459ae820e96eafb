/**
 * Which values of a name for a secret are secrets, and which are code, placeholders or references.
 */
import type { KeyKind } from "./keys.ts"
import { entropyOf, isPlaceholder, isWordy, partInWords, transitionsOf } from "./looks.ts"

/** A value with facts about the text around it. */
export interface Value {
  readonly text: string
  readonly quoted: boolean
  /** Whether the line is `NAME=value`, a flag or a query parameter, where a value is never code. */
  readonly literal: boolean
  /** Whether only `=` stands between the name and the value. */
  readonly assigned: boolean
}

/** Values that refer to a secret or stand for one. */
const references =
  /^(?:\$[A-Za-z_{(]|%[\w.]+%|%[sdrv](?:\W|$)|\{\{|<%|<[\w .-]+>|#\{|process\.env|os\.(?:environ|getenv)|env[.(:]|import\.meta|config[.(]|System\.|secret:\/\/|op:\/\/|vault:|arn:|ssm:|file:|https?:\/\/[^@]*$|\/(?:run|etc|var|home|usr|opt|mnt|tmp|proc)\/|\.{0,2}\/|~\/|[A-Za-z]:\\|!(?:Ref|Sub|GetAtt|vault)|\*+$|-+$|@[A-Za-z])/

/** Values that name a type, a state or nothing. */
const plainWords =
  /^(?:string|str|number|int|integer|boolean|bool|text|varchar|char|bytes?|object|any|unknown|never|void|null|none|nil|undefined|true|false|yes|no|on|off|required|optional|hidden|password|passwd|pwd|secret|token|key|bearer|basic|default|empty|unset|disabled|enabled|self|this|value|n\/a)\W*$/i

/** Words with dashes, dots or slashes between them, as names and paths have. */
const wordsOnly = /^[A-Za-z\u00c0-\uffff]+(?:[-_.:/ ,'!?]+[A-Za-z\u00c0-\uffff]+)*[.:!?]?$/

/** Identifiers of code and the members of objects: `options.password`, `user?.token`, `Self::KEY`. */
const members = /^!*[A-Za-z_$][\w$]*!?(?:(?:\?|!)?\.[A-Za-z_$][\w$]*|::[A-Za-z_$][\w$]*|->[A-Za-z_$][\w$]*)+$/

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Whether the value of a name of this kind is a secret. */
export const isSecret = (kind: KeyKind, name: string, value: Value): boolean => {
  const { assigned } = value
  // The head of a long value says what it is.
  const text = value.text.slice(0, 256)
  if (value.text.length > 200 && /\s/.test(text)) return false
  if (references.test(text) || plainWords.test(text)) return false
  if (text.toLowerCase() === name.toLowerCase() || isPlaceholder(text)) return false
  switch (kind) {
    case "password":
      return isPassword({ ...value, text })
    case "authorization":
      return text.length >= 8
    case "cookie":
      return text.length >= 8
    case "token":
      return isToken({ ...value, text })
    case "signature":
      // Others are signatures of a provider or of a program, which are no secrets.
      return assigned && text.length >= 16 && looksRandom(text)
    case "weak":
      return text.length >= 16 && isToken({ ...value, text }) && looksRandom(text)
    case "vendor":
      return (
        text.length >= shortestOfVendor &&
        /^[\w.=+/-]+$/.test(text) &&
        isToken({ ...value, text }) &&
        (uuid.test(text) || looksRandom(text, shortestOfVendor) || isLongCode(text))
      )
  }
}

/** The length of the shortest access id of a vendor. */
const shortestOfVendor = 14

const directory = /^\/[\w.-]+(?:\/[\w .-]*)*$/

const isPassword = ({ literal, quoted, text }: Value): boolean => {
  // `PWD` is the working directory.
  if (directory.test(text)) return false
  if (text.length < 4 || /^[\^~<>=v]*\d+\.\d+(?:\.\d+)?\W*$/.test(text)) return false
  if (literal) return !/^\d{1,3}$/.test(text)
  if (isMixedLetters(text) || isWeak(text)) return true
  if (wordsOnly.test(text) || /^\d+(?:\.\d+)?$/.test(text)) return false
  if (quoted) return !isNamelike(text) || /[0-9]/.test(text)
  if (!/[0-9!@#%^]/.test(text)) return false
  return (
    text.length >= 6 &&
    !members.test(text) &&
    /[A-Za-z]/.test(text) &&
    !/[()[\]{}]|=>|[|&]{2}/.test(text) &&
    !isIdentifier(text)
  )
}

const isToken = ({ literal, quoted, text }: Value): boolean => {
  if (text.length < 8 || /\s/.test(text)) return false
  if (uuid.test(text)) return true
  if (isNamelike(text) && !(literal && /[0-9]/.test(text))) return false
  if (members.test(text) && !literal && !text.split(".").some(isRandomPart)) return false
  if (!/[0-9]/.test(text)) return isMixedLetters(text) || (text.length >= 20 && looksRandom(text))
  if (!/[A-Za-z]/.test(text)) return literal && text.length >= 12
  if (/^(?:0x)?[0-9a-f]{16,}$/i.test(text)) return true
  if (isNumbered(text) && !(literal && isWeak(text))) return false
  if (!quoted && !literal && (/[()[\]{}<>]|=>|[|&]{2}/.test(text) || isIdentifier(text))) return false
  return entropyOf(text) >= Math.min(3, Math.log2(text.length) * 0.7)
}

/** Whether a text consists of words that a reader could pronounce. */
const isNamelike = (text: string): boolean => isWordy(text) && partInWords(text) >= 0.45

/** Whether a text is a word and a number, as people choose passwords, and not the name of an algorithm. */
const isWeak = (text: string): boolean =>
  /^[A-Za-z]{4,20}\d{3,8}$/.test(text) &&
  !/^(?:[a-z]?sha|md|aes|rsa|base|utf|u?int|float|oauth|argon|port|room|line|page|node|build|test|user)\d/i.test(
    text
  )

/** Whether a part of a text with dots is rather a token than the name of a member. */
const isRandomPart = (part: string): boolean => looksRandom(part) && partInWords(part) < 0.5

/** Whether a text is a name with numbers: words with digits only at their ends. */
const isNumbered = (text: string): boolean => {
  const parts = text.split(/[-_./: ]+/).filter((part) => part !== "")
  if (parts.length < 2) return /^[A-Za-z]?[a-z]+\d{1,3}$/.test(text) || /^[A-Z]+\d{1,3}$/.test(text)
  const words = parts.filter(
    (part) => /^(?:[A-Z]?[a-z]{2,}|[A-Z]{2,})\d{0,3}$/.test(part) || /^v?\d{1,10}$/.test(part)
  )
  return words.length >= parts.length * 0.7
}

/** Whether a text without a quote is rather an identifier: `x509_key`, `base64Value`. Most of it is words. */
const isIdentifier = (text: string): boolean =>
  /^[A-Za-z_$][\w$]*$/.test(text) &&
  (text.includes("_") || /[a-z]\d*[A-Z]/.test(text) || text.length < 10) &&
  partInWords(text) >= 0.5 &&
  !looksRandom(text)

/** Whether letters, without a digit, are those of a generated password: their case changes, and they form no words. */
export const isMixedLetters = (given: string): boolean => {
  const text = given.replace(/[-_.!?@#%^*+~]/g, "")
  return (
    text.length >= 10 && /^[A-Za-z]+$/.test(text) && transitionsOf(text) >= 0.3 && partInWords(given) < 0.5
  )
}

/** Whether a text is a long word of letters and digits that are no words, also if they stand in few groups. */
const isLongCode = (text: string): boolean =>
  text.length >= 32 && /^[A-Za-z0-9]+$/.test(text) && /[0-9]/.test(text) && partInWords(text) < 0.3

const looksRandom = (text: string, shortest = 16): boolean => {
  if (text.length < shortest) return false
  if (/^[0-9a-f]+$/i.test(text)) return /[0-9]/.test(text) && /[a-f]/i.test(text) && entropyOf(text) >= 2.8
  return entropyOf(text) >= 3.4 && transitionsOf(text) >= 0.3
}
