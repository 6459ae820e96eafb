/**
 * Comparing and hashing JSON values needs one spelling for each value: keys sorted, no white space.
 */
import type * as Schema from "effect/Schema"

/** The canonical text of a JSON value. Keys that are `undefined` are left out. */
export const canonicalJson = (value: Schema.Json | undefined): string => {
  if (value === null || typeof value !== "object") return JSON.stringify(value ?? null)
  if (Array.isArray(value)) return `[${value.map((item: Schema.Json) => canonicalJson(item)).join(",")}]`
  const object = value as Schema.JsonObject
  const parts: Array<string> = []
  for (const key of Object.keys(object).sort()) {
    const item = object[key]
    if (item !== undefined) parts.push(`${JSON.stringify(key)}:${canonicalJson(item)}`)
  }
  return `{${parts.join(",")}}`
}

/** How deep what a model or a caller gives may lie: far more than any tool takes, and less than what cannot be read back. */
export const maxGivenDepth = 200

/** Whether arrays and objects lie in each other more than `levels` deep. Does not recurse, so that any input can be asked. */
export const isDeeperThan = (value: unknown, levels: number): boolean => {
  let level: Array<object> = typeof value === "object" && value !== null ? [value] : []
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > levels) return true
    const below: Array<object> = []
    for (const container of level) {
      for (const item of Array.isArray(container) ? container : Object.values(container)) {
        if (typeof item === "object" && item !== null) below.push(item)
      }
    }
    level = below
  }
  return false
}
