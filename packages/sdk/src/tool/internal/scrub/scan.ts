/**
 * Finds the secrets of a line: the layers one after another.
 */
import type { NameBefore } from "./acrossLines.ts"
import { findRandomTexts } from "./entropy.ts"
import { secretWords, secretWordsAndVendors } from "./keys.ts"
import { findKeyValues } from "./keyValues.ts"
import { Line } from "./Line.ts"
import { startOfLongWord } from "./longWords.ts"
import { masked, maskedReferences, separated, type Span, unmasked } from "./span.ts"
import { findCredentials } from "./structure.ts"
import { findVendorTokens } from "./vendors.ts"

/** `all`: every layer. `named`: every layer but the one for random texts. `none`: no layer. */
export type Layers = "all" | "named" | "none"

/** What is in every text with a name for a secret, or with the syntax of a credential. */
const syntax = String.raw`://|---|\s-[A-Za-z-]|identified|phrase|mnemonic|SecureString|AUTH |requirepass|masterauth|/user:|BUNDLE_|[?&]code=|:(?:543|6432|\*)|LS0tLS1`
const marks = new RegExp(`${secretWords.source}|${syntax}`, "i")
const marksAndVendors = new RegExp(`${secretWordsAndVendors.source}|${syntax}`, "i")

/** Whether a text, which may have several lines, may contain a secret. */
export const mayHoldSecret = (text: string): boolean => startOfLongWord(text) !== -1 || marks.test(text)

/** The secrets of a line, sorted, without overlaps and without what is already removed. */
export const scan = (line: string, layers: Layers, before?: NameBefore): ReadonlyArray<Span> => {
  const given = masked(line)
  const text = maskedReferences(given)
  const spans: Array<Span> = []
  // A token in the place of a reference's name is a token.
  const tokens: Array<Span> = []
  before?.next(text, spans)
  const hasLongWord = startOfLongWord(given) !== -1
  if (hasLongWord) {
    findVendorTokens(given, tokens)
    if (layers === "all") findRandomTexts(given, tokens)
  }
  if ((hasLongWord ? marksAndVendors : marks).test(text)) {
    findCredentials(text, spans)
    findKeyValues(new Line(text), hasLongWord, spans)
  }
  if (spans.length === 0 && tokens.length === 0) return spans
  return separated([
    ...tokens.flatMap((span) => unmasked(given, span) ?? []),
    ...spans.flatMap((span) => unmasked(text, span) ?? [])
  ])
}
