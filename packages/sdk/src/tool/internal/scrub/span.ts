/**
 * What the layers of the scrubber find, and how the findings are put together.
 */

/** A part of a text that is a secret: `[start, end)` in UTF-16 code units, and what kind of secret it is. */
export interface Span {
  readonly start: number
  readonly end: number
  /** Lower-case letters, digits and dashes, such as `password` or `github-token`. */
  readonly type: string
}

/** Sorts spans by their start and drops each that overlaps an earlier one. Of two that start together, the longer stays. */
export const separated = (spans: Array<Span>): ReadonlyArray<Span> => {
  spans.sort((a, b) => a.start - b.start || b.end - a.end)
  let end = 0
  return spans.filter((span) => {
    if (span.start < end) return false
    end = span.end
    return true
  })
}

/** The text that stands where a secret was. */
export const placeholder = (type: string): string => `[REDACTED:${type}]`

/**
 * The type of the secret with a name: the name in lower case, with `-` between its words, or `secret` for a name without letters and
 * digits.
 */
export const typeOf = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")
    .slice(0, 80) || "secret"

const placeholders = /\[REDACTED:[a-z0-9-]+\]/g

/** The character that stands for each character of a placeholder while a text is scanned. */
const mask = "\ue000"

/** The text with masks in place of its placeholders, so that no layer reads their words. */
export const masked = (text: string): string =>
  text.includes("[REDACTED:") ? text.replace(placeholders, (found) => mask.repeat(found.length)) : text

const references = /secret:\/\/(?:\{\w+(?:[./-]\w+)*\}|\w+(?:[./-]\w+)*)/gi

/** The text with masks in place of references to secrets, which are none: `password=secret://db` stays. */
export const maskedReferences = (text: string): string =>
  text.replace(references, (found) => mask.repeat(found.length))

/**
 * A span of a masked text without what is already removed: undefined if little else is in it, and otherwise extended to the whole of each
 * placeholder that it meets.
 */
export const unmasked = (text: string, span: Span): Span | undefined => {
  const inside = text.slice(span.start, span.end)
  if (!inside.includes(mask)) return span
  if (inside.replaceAll(mask, "").length < 4) return undefined
  let { end, start } = span
  if (text[start] === mask) while (text[start - 1] === mask) start -= 1
  if (text[end - 1] === mask) while (text[end] === mask) end += 1
  return { start, end, type: span.type }
}
