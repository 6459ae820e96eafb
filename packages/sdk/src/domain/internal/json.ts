/**
 * Compares, copies and bounds JSON values, and gives each value one canonical text for hashing.
 */
import type * as Schema from "effect/Schema"

/** The canonical text of a JSON value: keys sorted, without white space and without keys whose value is `undefined`. */
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

/** The most levels of nesting of a value from a model or a caller: more than a tool needs, and few enough to be read back. */
export const maxGivenDepth = 200

/** Whether arrays and objects are nested more than `levels` deep. Does not recurse, so any input is safe. */
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

/** Whether two JSON values are equal; the order of keys does not count. */
export const sameJson = (one: Schema.Json | undefined, other: Schema.Json | undefined): boolean => {
  if (one === other) return true
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false
  if (Array.isArray(one) !== Array.isArray(other)) return false
  const names = Object.keys(one)
  if (names.length !== Object.keys(other).length) return false
  return names.every(
    (name) =>
      Object.hasOwn(other, name) &&
      sameJson((one as Schema.JsonObject)[name], (other as Schema.JsonObject)[name])
  )
}

/**
 * Copies a JSON value without the fields that are `undefined`. Returns `undefined` if the value is not JSON, has symbol keys or keys that
 * are not enumerable, or is nested deeper than `levels`.
 */
export const copyJson = (value: unknown, levels: number = maxGivenDepth): Schema.Json | undefined => {
  if (typeof value === "string" || typeof value === "boolean" || value === null) return value
  if (typeof value === "number") return Number.isFinite(value) ? value : undefined
  if (typeof value !== "object" || levels <= 0) return undefined
  return Array.isArray(value) ? copyList(value, levels - 1) : copyObject(value, levels - 1)
}

/** Copies a value that is known to be plain JSON, such as the result of `JSON.parse`. */
export const cloneJson = (json: Schema.Json): Schema.Json => {
  if (typeof json !== "object" || json === null) return json
  if (Array.isArray(json)) return json.map((item: Schema.Json) => cloneJson(item))
  // Spreading keeps a `__proto__` key, which an assignment would take for the prototype.
  const copy: Record<string, Schema.Json> = { ...(json as Schema.JsonObject) }
  for (const name of Object.keys(copy)) {
    const item = copy[name]
    if (typeof item === "object" && item !== null) copy[name] = cloneJson(item)
  }
  return copy
}

const copyList = (list: ReadonlyArray<unknown>, levels: number): Schema.Json | undefined => {
  const copy: Array<Schema.Json> = []
  for (let index = 0; index < list.length; index += 1) {
    const item = copyJson(list[index], levels)
    if (item === undefined) return undefined
    copy.push(item)
  }
  return copy
}

const copyObject = (object: object, levels: number): Schema.Json | undefined => {
  const prototype: unknown = Object.getPrototypeOf(object)
  if (prototype !== Object.prototype && prototype !== null) return undefined
  // Spreading keeps a `__proto__` key, which an assignment would take for the prototype, and is fast.
  const copy: Record<string, unknown> = { ...object }
  const names = Object.keys(copy)
  if (Reflect.ownKeys(object).length > names.length) return undefined
  for (const name of names) {
    const field = copy[name]
    if (field === undefined) {
      delete copy[name]
      continue
    }
    const item = copyJson(field, levels)
    if (item === undefined) return undefined
    if (item !== field) copy[name] = item
  }
  return copy as Schema.JsonObject
}
