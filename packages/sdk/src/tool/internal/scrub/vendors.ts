/**
 * Finds tokens by the prefix or mark of their vendor. Only texts of at least 16 characters without a space are looked at.
 */
import { endOfWord, startOfLongWord } from "./longWords.ts"
import { isFiller, isStandIn, partInWords } from "./looks.ts"
import type { Span } from "./span.ts"
import { markRules, prefixRules } from "./vendorRules.ts"

interface Rule {
  readonly type: string
  readonly prefix: string
  /** Sticky, from the end of the prefix. */
  readonly rest: RegExp
}

/** Rules by the first two characters of their prefix. */
const byStart = new Map<string, Array<Rule>>()
for (const [type, prefixes, rest] of prefixRules) {
  for (const prefix of prefixes.split(" ")) {
    const start = prefix.slice(0, 2)
    const rules = byStart.get(start) ?? []
    rules.push({ type, prefix, rest: new RegExp(rest, "y") })
    byStart.set(start, rules)
  }
}
// Of two prefixes that match, the longer one names the vendor.
for (const rules of byStart.values()) rules.sort((a, b) => b.prefix.length - a.prefix.length)

/** The first characters of prefixes, so that most positions need no lookup. */
const starts = new Uint8Array(128)
for (const start of byStart.keys()) starts[start.charCodeAt(0)] = 1

const marks = markRules.map(([type, mark, token]) => ({ type, mark, token: new RegExp(token, "g") }))

/** Adds the vendors' tokens of a text. */
export const findVendorTokens = (text: string, spans: Array<Span>): void => {
  let end = 0
  for (let index = startOfLongWord(text); index !== -1; index = startOfLongWord(text, end)) {
    end = endOfWord(text, index)
    let inWord = false
    for (let at = index; at < end; at += 1) {
      const code = text.charCodeAt(at)
      if (!inWord && code < 128 && starts[code] === 1) {
        const span = tokenAt(text, at)
        if (span !== undefined) {
          spans.push(span)
          at = span.end - 1
          inWord = true
          continue
        }
      }
      // A plus sign within a word is base64, whose next letters are no prefix.
      inWord = isWord(code) || (code === plus && inWord)
    }
    const candidate = text.slice(index, end)
    for (const { mark, token, type } of marks) {
      if (!candidate.includes(mark)) continue
      for (const found of candidate.matchAll(token)) {
        if (isStandIn(found[0])) continue
        spans.push({ start: index + found.index, end: index + found.index + found[0].length, type })
      }
    }
  }
}

const plus = 43

const isWord = (code: number): boolean =>
  (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57) || code === 0xe000

/** Whether what follows a prefix is words, as in `sk-learn-contrib` and `hf_requiredTypes`. */
const isName = (rest: string): boolean => partInWords(rest) >= 0.6 && new Set(rest).size > 5

const tokenAt = (text: string, at: number): Span | undefined => {
  const rules = byStart.get(text.slice(at, at + 2))
  if (rules === undefined) return undefined
  for (const { prefix, rest, type } of rules) {
    if (!text.startsWith(prefix, at)) continue
    rest.lastIndex = at + prefix.length
    const found = rest.exec(text)
    if (found === null || isName(found[0]) || isFiller(found[0])) continue
    return { start: at, end: rest.lastIndex, type }
  }
  return undefined
}
