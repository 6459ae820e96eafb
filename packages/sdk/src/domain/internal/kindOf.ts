/**
 * Words for a value that a program without types gave in the place of a string.
 */

/** What kind of value it is, with its article. Nothing of the value itself is shown. */
export const kindOf = (value: unknown): string => {
  if (value === null || value === undefined) return String(value)
  if (Array.isArray(value)) return "a list"
  return typeof value === "object" ? "an object" : `a ${typeof value}`
}
