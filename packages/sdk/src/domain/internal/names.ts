/**
 * Names under which no caller can decide: those that Fermata itself uses in records, whatever letters spell them, and those without a
 * visible character. Records that have such names already stay readable.
 *
 * Two names count as one when they are equal in this form: NFKD, without marks, white space, control characters and characters that
 * take no room, in lower case, with each letter of the table below in the place of those that look like it. The table holds the letters
 * of the reserved names alone, from the scripts whose letters are mistaken for them: Latin, Cyrillic, Greek and Armenian, and the digits.
 */

/**
 * Characters that fonts draw as nothing though Unicode counts them as letters or symbols: the braille cell without dots, the object
 * replacement character, the musical null notehead, fillers of Khitan and Egyptian. For a class of a regular expression with the flag `u`.
 */
export const blank = String.raw`\u2800\uFFFC\u{1D159}\u{16FE4}\u{13441}\u{13442}`

/** What is not seen in a name: marks, white space, controls, what takes no room, and what is drawn as nothing. */
const unseen = new RegExp(
  String.raw`[\p{M}\p{White_Space}\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}${blank}]`,
  "gu"
)

/** Letters that look like one of `expiry` or `policy`. An `l`, an `i` and a `1` are one: a capital `I` is an `l` in many fonts. */
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

/** The form in which names are compared. */
const skeleton = (name: string): string =>
  Array.from(
    name.normalize("NFKD").replaceAll(unseen, "").toLowerCase(),
    (letter) => letters.get(letter) ?? letter
  ).join("")

const reserved: ReadonlySet<string> = new Set(["expiry", "policy"].map(skeleton))

/** Whether a name is one that Fermata itself has in records, or looks like one. */
export const isReserved = (name: unknown): boolean => typeof name === "string" && reserved.has(skeleton(name))

/** Whether nothing of a name can be seen. */
export const isBlank = (name: string): boolean => name.replaceAll(unseen, "") === ""
