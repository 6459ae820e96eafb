/**
 * Matches patterns with `*` as the only wildcard, without building a regular expression from a user's or a model's text.
 */

/** Whether `text` matches `pattern`, in which `*` stands for any number of any characters. */
export const matchesGlob = (pattern: string, text: string): boolean => {
  const pieces = pattern.split("*")
  if (pieces.length === 1) return pattern === text
  const first = pieces[0]!
  const final = pieces[pieces.length - 1]!
  if (text.length < first.length + final.length || !text.startsWith(first) || !text.endsWith(final))
    return false
  let from = first.length
  const until = text.length - final.length
  for (const piece of pieces.slice(1, -1)) {
    const at = text.indexOf(piece, from)
    if (at === -1 || at + piece.length > until) return false
    from = at + piece.length
  }
  return true
}
