/**
 * Finds the secrets of a line: the layers one after another.
 */
import type { NameBefore } from "./acrossLines.ts"
import { findRandomTexts } from "./entropy.ts"
import { secretWords, secretWordsAndVendors } from "./keys.ts"
import { findKeyValues } from "./keyValues.ts"
import { Line } from "./Line.ts"
import { startOfLongWord } from "./longWords.ts"
import { masked, separated, type Span, unmasked } from "./span.ts"
import { findCredentials } from "./structure.ts"
import { findVendorTokens } from "./vendors.ts"

/** `all`: every layer. `named`: every layer but the one for random texts. `none`: no layer. */
export type Layers = "all" | "named" | "none"

/** What is in every text with a name for a secret, or with the syntax of a credential. */
const syntax = String.raw`://|---|\s-[A-Za-z-]|identified|phrase|mnemonic|SecureString|AUTH |requirepass|masterauth|:(?:543|6432|\*)|LS0tLS1`
const marks = new RegExp(`${secretWords.source}|${syntax}`, "i")
const marksAndVendors = new RegExp(`${secretWordsAndVendors.source}|${syntax}`, "i")

/** Whether a text, which may have several lines, may contain a secret. */
export const mayHoldSecret = (text: string): boolean => startOfLongWord(text) !== -1 || marks.test(text)

/** The secrets of a line, sorted, without overlaps and without what is already removed. */
export const scan = (line: string, layers: Layers, before?: NameBefore): ReadonlyArray<Span> => {
  const text = masked(line)
  const spans: Array<Span> = []
  before?.next(text, spans)
  const hasLongWord = startOfLongWord(text) !== -1
  if (hasLongWord) {
    findVendorTokens(text, spans)
    if (layers === "all") findRandomTexts(text, spans)
  }
  if ((hasLongWord ? marksAndVendors : marks).test(text)) {
    findCredentials(text, spans)
    findKeyValues(new Line(text), hasLongWord, spans)
  }
  return spans.length === 0 ? spans : separated(spans.flatMap((span) => unmasked(text, span) ?? []))
}
