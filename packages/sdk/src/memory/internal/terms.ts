/**
 * The terms by which memory is searched: the words of a text in lower case, without accents, without frequent words of English, reduced to
 * their stems. All layers index and search these terms, so that they find the same.
 */
import { porterStem } from "./porterStem.ts"

/** The function words of English, which say nothing about the subject of a text. Measured: they cost a tenth of the recall at five. */
const stopWords: ReadonlySet<string> = new Set(
  (
    "a about above after again against all am an and any are as at be because been before being below between both but by can could did do " +
    "does doing don down during each few for from further had has have having he her here hers herself him himself his how i if in into is it " +
    "its itself just let me more most my myself no nor not now of off on once only or other our ours ourselves out over own re s same she " +
    "should so some such t than that the their theirs them themselves then there these they this those through to too under until up us ve very " +
    "was we were what when where which while who whom why will with would you your yours yourself yourselves d ll m"
  ).split(" ")
)

const marks = /\p{M}+/gu
const words = /[\p{L}\p{N}]+/gu

/** Longer runs of letters and digits are data, such as base64, and not words. */
const mostCharacters = 64

/** Stems of words that were met before. Texts repeat their words, and a stem takes longer than a look-up. */
const stems = new Map<string, string>()
const mostStems = 20_000

const stemOf = (word: string): string => {
  let stem = stems.get(word)
  if (stem === undefined) {
    stem = porterStem(word)
    if (stems.size >= mostStems) stems.clear()
    stems.set(word, stem)
  }
  return stem
}

const onlyAscii = /^[\0-\x7f]*$/

/** The text in the form in which its words are compared. */
const plain = (text: string): string =>
  (onlyAscii.test(text) ? text : text.normalize("NFKD").replace(marks, "")).toLowerCase()

/** The terms of a text, in order, with repetitions, and how many of them begin before the place `head`. */
export const analyze = (
  text: string,
  head: number
): { readonly terms: ReadonlyArray<string>; readonly heads: number } => {
  const terms: Array<string> = []
  let heads = 0
  for (const { 0: word, index } of plain(text).matchAll(words)) {
    if (word.length > mostCharacters || stopWords.has(word)) continue
    terms.push(stemOf(word))
    if (index < head) heads = terms.length
  }
  return { terms, heads }
}

/** The terms of a text, in order, with repetitions. */
export const termsOf = (text: string): ReadonlyArray<string> => analyze(text, 0).terms
