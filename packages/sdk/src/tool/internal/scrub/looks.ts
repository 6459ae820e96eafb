/**
 * What a value looks like: a secret, a placeholder for one, or code that refers to one.
 */

/** Shannon entropy in bits a character. */
export const entropyOf = (text: string): number => {
  const counts = new Map<number, number>()
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index)
    counts.set(code, (counts.get(code) ?? 0) + 1)
  }
  let entropy = 0
  for (const count of counts.values()) entropy -= (count / text.length) * Math.log2(count / text.length)
  return entropy
}

/** The part of neighboring characters that are of different classes: 0.1 to 0.3 in names, about 0.6 in random text. */
export const transitionsOf = (text: string): number => {
  let changes = 0
  let before = classOf(text.charCodeAt(0))
  for (let index = 1; index < text.length; index += 1) {
    const now = classOf(text.charCodeAt(index))
    if (now !== before) changes += 1
    before = now
  }
  return changes / Math.max(1, text.length - 1)
}

const classOf = (code: number): number =>
  code >= 97 && code <= 122 ? 0 : code >= 65 && code <= 90 ? 1 : code >= 48 && code <= 57 ? 2 : 3

const standIns =
  /x{5}|\*{3}|\.{3}|\u2026|[_-]here\b|your|example|sample|placeholder|dummy|change[-_ ]?(?:me|it)|redacted|replace[-_ ]?(?:me|with)|<[a-z][^<>]*>|\$\{[^{}]*\}|\{\{[\s\w.|$-]*\}\}/i
const fillers = /0{8}|12345678|abcdef(?![0-9])|insert[-_ ]|todo|fixme/i

/** Whether a text says that it stands for a token: `xxxxx`, `<your key>`, `${TOKEN}`. */
export const isStandIn = (text: string): boolean =>
  standIns.test(text.length > 400 ? text.slice(0, 400) : text)

/** Whether a text stands where a secret would be, also because it repeats a few characters. */
export const isPlaceholder = (text: string): boolean =>
  new Set(text.slice(0, 100)).size < Math.min(5, Math.ceil(text.length / 2)) ||
  isStandIn(text) ||
  fillers.test(text.slice(0, 400))

/** Whether a token is a placeholder for one: its text says so, or it repeats up to three capital letters, digits and signs. */
export const isFiller = (token: string): boolean =>
  isStandIn(token) || (new Set(token.slice(0, 100)).size < 4 && !/[a-z]/.test(token))

/** Letters of one case in a row, or a capital letter and small ones. */
const runs = /[A-Z]?[a-z]{2,}|[A-Z]{3,}(?![a-z])/g

/** The part of a text in letters that a reader could pronounce: 0.6 to 1 in names, 0.2 in random text. */
export const partInWords = (text: string): number => {
  let inWords = 0
  for (const [run] of text.matchAll(runs)) if (run.length >= 3 && isPronounceable(run)) inWords += run.length
  return inWords / text.length
}

/** Neighboring letters that words of European languages do not have. */
const unspoken =
  /q[^u]|j[^aeiou]|v[^aeiouyr]|z[^aeiouyzlh]|x[^aeiouycptx]|[bcdfghjkmnpqstvwz]x|w[bcfgjkmpqtvxz]|[bcdfgjkmpqtvwxz]j|[bdfghjkmpqtvwxz]q|[bcfgjkmpqtvwxz]v|[bcdfghjkmpqvwx]z|g[bcfjkpqvwxz]|h[bcdfghjkpqvxz]|f[bcdghjkmnpqvwxz]|p[bcdfgjkmqvwxz]|k[bcdfgjmpqtvxz]|c[bdfgjmpqvwx]|b[cfghkpqwxz]|d[bcfkpqtxz]|m[cdghjkqrtvwxz]|[^aeiouy]{4}/i

/** Whether letters have a vowel, and no neighbors that words do not have. */
const isPronounceable = (run: string): boolean => /[aeiouy]/i.test(run) && !unspoken.test(run)

/** Whether a text consists of words, as names in code do: `convertBase64ToUint8Array`, `jwt-bearer`, `CLIENT_TOOL_KEYS`. */
export const isWordy = (text: string): boolean => {
  let inWords = 0
  for (const [run] of text.matchAll(runs)) if (run.length >= 4 && /[aeiouy]/i.test(run)) inWords += run.length
  if (inWords / text.length < 0.5) return false
  const digits = text.replace(/[^0-9]/g, "").length
  if (digits === 0) return true
  return digits / text.length < 0.2 && /[a-z]\d*[A-Z]|[^A-Za-z0-9]/.test(text)
}
