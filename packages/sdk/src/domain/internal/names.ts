/**
 * Detects names under which no caller may decide: the names that Fermata itself uses in records, names that look like them, and names
 * without a visible character. Existing records with such names stay readable.
 *
 * Two names look alike if their skeletons are equal. The skeleton of a name is its NFKD form in lower case, without marks, white space,
 * control characters and characters of no width, and with look-alike letters replaced by the letter of the table below. The table covers
 * only the letters of the reserved names, and look-alikes from Latin, Cyrillic, Greek and Armenian and from digits and punctuation.
 */

/**
 * Characters that fonts draw as nothing although Unicode classifies them as letters or symbols: the braille cell without dots, the
 * object replacement character, the musical null notehead, fillers of Khitan and Egyptian. For use in a character class with the flag
 * `u`.
 */
export const blank = String.raw`\u2800\uFFFC\u{1D159}\u{16FE4}\u{13441}\u{13442}`

/** Characters that are not visible in a name, and marks. */
const unseen = new RegExp(
  String.raw`[\p{M}\p{White_Space}\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}${blank}]`,
  "gu"
)

/** Look-alikes of the letters of `expiry` and `policy`. `l`, `i` and `1` count as one letter, because many fonts draw `I` like `l`. */
const alike: Readonly<Record<string, string>> = {
  c: "ᴄсϲ",
  e: "ᴇеҽεє",
  i: "1l|!ıɪɩіӏιʟłǀ",
  o: "0ᴏоοօσ",
  p: "ᴘрρ",
  r: "ʀгᴦ",
  x: "хχ×",
  y: "ʏуүγυ"
}

const letters: ReadonlyMap<string, string> = new Map(
  Object.entries(alike).flatMap(([letter, others]) => Array.from(others, (other) => [other, letter] as const))
)

/** The form of a name in which look-alike names are equal. */
const skeleton = (name: string): string =>
  Array.from(
    name.normalize("NFKD").replaceAll(unseen, "").toLowerCase(),
    (letter) => letters.get(letter) ?? letter
  ).join("")

const reserved: ReadonlySet<string> = new Set(["expiry", "policy"].map(skeleton))

/** Whether a name equals one that Fermata itself uses in records, or looks like it. */
export const isReserved = (name: unknown): boolean => typeof name === "string" && reserved.has(skeleton(name))

/** Whether a name has no visible character. */
export const isBlank = (name: string): boolean => name.replaceAll(unseen, "") === ""
