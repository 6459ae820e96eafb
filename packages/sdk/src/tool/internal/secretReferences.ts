/**
 * References to secrets in the arguments of calls: `secret://name`, or `secret://{name}` in front of other text.
 *
 * A name consists of words of letters, digits and `_`, each two joined by one `.`, `/` or `-`, at most 128 characters together. The longest
 * name counts, so a mark at its end, such as the dot of a sentence, is no part of it. The scheme may be in any case.
 */
import type * as Schema from "effect/Schema"
import { matchesGlob } from "../../domain/internal/glob.ts"

const name = String.raw`\w+(?:[./-]\w+)*`
const reference = new RegExp(String.raw`secret://(?:\{(${name})\}|(${name}))?`, "gi")
const scheme = /secret:\/\//i
const longestName = 128

const pattern = /^[\w*]+(?:[./-][\w*]+)*$/

/** Whether a text is a name, or a pattern of names in which `*` stands for any characters. */
export const isPattern = (text: string): boolean => text.length <= longestName && pattern.test(text)

/** Whether a tool that states these patterns may use a secret. An unreadable reference is no name, also for the pattern `*`. */
export const isStated = (patterns: ReadonlyArray<string>, secret: string): boolean =>
  !secret.includes(":") && patterns.some((one) => matchesGlob(one, secret))

/** Whether JSON contains a reference, or what begins like one. */
export const hasReference = (json: Schema.Json): boolean => {
  if (typeof json === "string") return scheme.test(json)
  if (typeof json !== "object" || json === null) return false
  return Object.entries(json).some(([key, value]) => scheme.test(key) || hasReference(value))
}

/** The names that the strings of JSON refer to. An unreadable reference, and one in the name of a field, is itself in the place of a name. */
export const referencesIn = (json: Schema.Json, found = new Set<string>()): Set<string> => {
  if (typeof json === "string") {
    for (const [whole, braced, bare] of json.matchAll(reference)) {
      const secret = braced ?? bare
      found.add(secret === undefined || secret.length > longestName ? whole : secret)
    }
  } else if (typeof json === "object" && json !== null) {
    for (const [key, value] of Object.entries(json)) {
      if (scheme.test(key)) found.add("secret://")
      referencesIn(value, found)
    }
  }
  return found
}

/** JSON with the values of secrets in the place of their references. A value that has the form of a reference stays as it is. */
export const withSecrets = (json: Schema.Json, values: ReadonlyMap<string, string>): Schema.Json => {
  if (typeof json === "string")
    return json.replace(
      reference,
      (whole, braced?: string, bare?: string) => values.get(braced ?? bare ?? "") ?? whole
    )
  if (typeof json !== "object" || json === null) return json
  if (Array.isArray(json)) return json.map((item) => withSecrets(item, values))
  return Object.fromEntries(Object.entries(json).map(([key, value]) => [key, withSecrets(value, values)]))
}
