/**
 * Finds the words that are long enough for a token.
 */

const shortest = 16

/** The characters of tokens and addresses. The mask of what is already removed counts, too. */
const inWord = new Uint8Array(128)
for (const character of "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.~+/=%:@$|-")
  inWord[character.charCodeAt(0)] = 1

const isInWord = (text: string, at: number): boolean => {
  const code = text.charCodeAt(at)
  return inWord[code] === 1 || code === 0xe000
}

/** The start of the next long word at or after `from`, or -1. Every long word has a character at one of the positions that are looked at. */
export const startOfLongWord = (text: string, from = 0): number => {
  for (let at = from + shortest - 1; at < text.length; at += shortest) {
    if (!isInWord(text, at)) continue
    let start = at
    while (start > from && isInWord(text, start - 1)) start -= 1
    let end = at + 1
    while (end < text.length && end - start < shortest && isInWord(text, end)) end += 1
    if (end - start >= shortest) return start
  }
  return -1
}

/** The end of the word that starts at a position. */
export const endOfWord = (text: string, start: number): number => {
  let end = start
  while (end < text.length && isInWord(text, end)) end += 1
  return end
}
