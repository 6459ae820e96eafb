/**
 * Reduces an English word to its stem with Porter's algorithm (M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980), with
 * the two departures of the author's reference implementation: `logi` → `log`, and `abli` → `able` read as `bli` → `ble`.
 *
 * Words with other letters than `a` to `z` are returned as they are, so that numbers, identifiers and other scripts keep their form.
 */

const isVowel = (word: string, at: number): boolean => {
  const letter = word[at]
  if (letter === "y") return at > 0 && !isVowel(word, at - 1)
  return letter === "a" || letter === "e" || letter === "i" || letter === "o" || letter === "u"
}

const hasVowel = (stem: string): boolean => {
  for (let at = 0; at < stem.length; at += 1) if (isVowel(stem, at)) return true
  return false
}

/** Porter's measure: the number of sequences of vowels that consonants follow. */
const measure = (stem: string): number => {
  let count = 0
  let afterVowel = false
  for (let at = 0; at < stem.length; at += 1) {
    const vowel = isVowel(stem, at)
    if (afterVowel && !vowel) count += 1
    afterVowel = vowel
  }
  return count
}

const endsInDouble = (word: string): boolean =>
  word.length > 1 && word.at(-1) === word.at(-2) && !isVowel(word, word.length - 1)

/** Consonant, vowel, consonant at the end, the last of which is not `w`, `x` or `y`. */
const endsShort = (word: string): boolean => {
  const last = word.length - 1
  return (
    last >= 2 &&
    !isVowel(word, last) &&
    isVowel(word, last - 1) &&
    !isVowel(word, last - 2) &&
    !"wxy".includes(word[last]!)
  )
}

/** Replaces the first suffix that fits, if the measure of what is before it is above `least`. */
const replaced = (word: string, rules: ReadonlyArray<readonly [string, string]>, least: number): string => {
  for (const [suffix, by] of rules) {
    if (!word.endsWith(suffix)) continue
    const stem = word.slice(0, -suffix.length)
    return measure(stem) > least ? stem + by : word
  }
  return word
}

const plural = (word: string): string => {
  if (word.endsWith("sses") || word.endsWith("ies")) return word.slice(0, -2)
  return word.endsWith("s") && !word.endsWith("ss") ? word.slice(0, -1) : word
}

const pastOrProgressive = (word: string): string => {
  if (word.endsWith("eed")) return measure(word.slice(0, -3)) > 0 ? word.slice(0, -1) : word
  const suffix = word.endsWith("ed") ? "ed" : word.endsWith("ing") ? "ing" : undefined
  if (suffix === undefined) return word
  const stem = word.slice(0, -suffix.length)
  if (!hasVowel(stem)) return word
  if (stem.endsWith("at") || stem.endsWith("bl") || stem.endsWith("iz")) return `${stem}e`
  if (endsInDouble(stem) && !"lsz".includes(stem.at(-1)!)) return stem.slice(0, -1)
  return measure(stem) === 1 && endsShort(stem) ? `${stem}e` : stem
}

const derived: ReadonlyArray<readonly [string, string]> = [
  ["ational", "ate"],
  ["tional", "tion"],
  ["enci", "ence"],
  ["anci", "ance"],
  ["izer", "ize"],
  ["bli", "ble"],
  ["alli", "al"],
  ["entli", "ent"],
  ["eli", "e"],
  ["ousli", "ous"],
  ["ization", "ize"],
  ["ation", "ate"],
  ["ator", "ate"],
  ["alism", "al"],
  ["iveness", "ive"],
  ["fulness", "ful"],
  ["ousness", "ous"],
  ["aliti", "al"],
  ["iviti", "ive"],
  ["biliti", "ble"],
  ["logi", "log"]
]

const adjectival: ReadonlyArray<readonly [string, string]> = [
  ["icate", "ic"],
  ["ative", ""],
  ["alize", "al"],
  ["iciti", "ic"],
  ["ical", "ic"],
  ["ful", ""],
  ["ness", ""]
]

const endings: ReadonlyArray<readonly [string, string]> = [
  "al",
  "ance",
  "ence",
  "er",
  "ic",
  "able",
  "ible",
  "ant",
  "ement",
  "ment",
  "ent",
  "ion",
  "ou",
  "ism",
  "ate",
  "iti",
  "ous",
  "ive",
  "ize"
].map((ending) => [ending, ""])

const withoutFinalE = (word: string): string => {
  if (!word.endsWith("e")) return word
  const stem = word.slice(0, -1)
  const count = measure(stem)
  return count > 1 || (count === 1 && !endsShort(stem)) ? stem : word
}

/** The stem of a word in lower case. */
export const porterStem = (word: string): string => {
  if (word.length < 3 || !/^[a-z]+$/.test(word)) return word
  let stem = pastOrProgressive(plural(word))
  if (stem.endsWith("y") && hasVowel(stem.slice(0, -1))) stem = `${stem.slice(0, -1)}i`
  stem = replaced(stem, derived, 0)
  stem = replaced(stem, adjectival, 0)
  // `ion` is a suffix only behind these letters.
  if (!stem.endsWith("ion") || "st".includes(stem.at(-4) ?? "-")) stem = replaced(stem, endings, 1)
  stem = withoutFinalE(stem)
  return stem.endsWith("ll") && measure(stem) > 1 ? stem.slice(0, -1) : stem
}
