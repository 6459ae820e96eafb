/**
 * Finds random texts that no key and no prefix identifies. The last and narrowest layer: an id or a hash that is removed breaks an agent's work.
 */
import { entropyOf, isPlaceholder, isWordy, partInWords, transitionsOf } from "./looks.ts"
import type { Span } from "./span.ts"

/** A text that stands alone: what is before and after it ends a word, and it is no part of a path, an address or an assignment. */
const candidates =
  /(?<![\w+/=.:@#%&?$~\\,\ue000-])[A-Za-z0-9][\w+/-]{23,127}={0,2}(?![\w+/=@#%&$~\\(\ue000-]|[.:,][\w/])/g

/** Ids of services: a short lower-case prefix, and what follows it. */
const withPrefix = /^[a-z]{1,12}[_-]/

/** The first characters of files in base64. */
const files =
  /^(?:iVBORw0KGgo|\/9j\/|R0lGOD|UklGR|UEsDB|H4sI|JVBERi|AGFzbQ|d09G|T2dn|SUkq|TU0A|Qk0|AAAA|MII[A-Z]|RW[QR]|LS0tLS1|PHN2Zy|PD94bWw|gAAAAA|CiQ|77u\/)/

/** Addresses of content and of wallets, in base 58. */
const addresses = /^(?:Qm[1-9A-HJ-NP-Za-km-z]{44}|[13][1-9A-HJ-NP-Za-km-z]{25,33})$/

/** What a text before a candidate says about it: the name of an id, a hash or a signature. */
const named =
  /(?:\b(?:sha\d*|md5|hash|digest|integrity|checksum|etag|version[-_]?id|commit|revision|rev|fingerprint|signature|sig|nonce|mappings|encrypted[-_]?content|thought[-_]?signature|data|content|body|uuid|guid|kid|jti|public[-_ ]?(?:key|token)|\w{0,30}cursor|parents|(?:next|page|continuation|sync|delta|resume)\w{0,20}token|code[-_]?challenge|(?:csrf|xsrf|authenticity|antiforgery)[\w-]{0,20}(?:["']\s{1,3}(?:value|content))?|[a-z_-]*-bin|(?:[a-z]+[-_])?ids?|ref|node|class|chunk|alphabet|chars?|h1)["']?\s{0,3}[:=]\s{0,3}\[?\s{0,3}["'`]?|["'][xyn]["']\s{0,3}:\s{0,3}["']|(?:ssh-\w+|ecdsa-\S{1,40}|sha\d+[-:]|base64,?) {0,2}|\|)$/i

/** The same for names such as `fileId`, where the case tells them from words. */
const namedId = /\b\w{1,40}I[dD]s?["']?\s{0,3}[:=]\s{0,3}\[?\s{0,3}["'`]?$/

/** Adds the random texts. `before` are the spans of the other layers. */
export const findRandomTexts = (text: string, spans: Array<Span>): void => {
  for (const { 0: found, index } of text.matchAll(candidates)) {
    if (!looksRandom(found) || isWrapped(text, found, index)) continue
    const before = text.slice(Math.max(0, index - 60), index)
    if (named.test(before) || namedId.test(before)) continue
    spans.push({ start: index, end: index + found.length, type: "random" })
  }
}

/** The lengths of the lines of wrapped base64. */
const widths = new Set([60, 64, 70, 72, 76])

/** Whether a text fills its line as a line of wrapped base64 does. */
const isWrapped = (text: string, found: string, index: number): boolean =>
  widths.has(found.length) &&
  text.slice(0, index).trim() === "" &&
  text.slice(index + found.length).trim() === ""

const looksRandom = (given: string): boolean => {
  if (/^(?:sha\d+|md5)-|^(?:0x)?[0-9a-f]+$/i.test(given) || addresses.test(given)) return false
  const text = given.replace(/=+$/, "")
  if (withPrefix.test(text) || files.test(text) || (text.includes("_", 1) && /^[a-zA-Z]+_/.test(text)))
    return false
  // The base64 of a hash: 20, 32 or 64 bytes.
  if (given.length > text.length && [28, 44, 88].includes(given.length)) return false
  if (!/[a-z]/.test(text) || !/[A-Z]/.test(text) || !/[0-9]/.test(text)) return false
  if (entropyOf(text) < 3.8 || transitionsOf(text) < 0.38) return false
  const parts = text.split(/[-_/]/)
  if (parts.length > 2 && parts.every((part) => part.length < 12)) return false
  return !isWordy(text) && partInWords(text) < 0.5 && !isPlaceholder(text) && !isReadable(text)
}

/** Whether a text is the base64 of readable text. */
const isReadable = (text: string): boolean => {
  if (/[-_]/.test(text)) return false
  try {
    return /^[\t\n\r -~]+$/.test(atob(text))
  } catch {
    return false
  }
}
