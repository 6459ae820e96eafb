/**
 * Finds the words that are long enough for a token.
 */

const shortest = 16
const fewestLetters = 10

/** The characters of tokens and addresses. The mask of what is already removed counts, too. */
const inWord = new Uint8Array(128)
for (const character of "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.~+/=%:@$|-")
  inWord[character.charCodeAt(0)] = 1

const isInWord = (text: string, at: number): boolean => {
  const code = text.charCodeAt(at)
  return inWord[code] === 1 || code === 0xe000
}

/**
 * The start of the next long word at or after `from`, or -1: 16 characters with 10 letters or digits, so that dots and lines of a screen are
 * none. Every long word has a character at one of the positions that are looked at.
 */
export const startOfLongWord = (text: string, from = 0): number => {
  let least = from
  for (let at = from + shortest - 1; at < text.length; at += shortest) {
    if (!isInWord(text, at)) continue
    let start = at
    while (start > least && isInWord(text, start - 1)) start -= 1
    const end = endOfWord(text, at)
    if (end - start >= shortest && hasLetters(text, start, end)) return start
    least = end
    at = Math.max(at, end - 1)
  }
  return -1
}

const hasLetters = (text: string, start: number, end: number): boolean => {
  let letters = 0
  for (let at = start; at < end && letters < fewestLetters; at += 1)
    if (isLetter(text.charCodeAt(at))) letters += 1
  return letters === fewestLetters
}

const isLetter = (code: number): boolean =>
  (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57)

/** The end of the word that starts at a position. */
export const endOfWord = (text: string, start: number): number => {
  let end = start
  while (end < text.length && isInWord(text, end)) end += 1
  return end
}
