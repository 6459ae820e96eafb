/**
 * Converts a JSON Schema to the subset that `output_config.format` accepts: closed objects and a fixed set of keywords. Other keywords
 * move to the description, or are dropped if they restrict nothing. The final response is decoded with the whole schema anyway.
 *
 * See https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
 */
import type * as Schema from "effect/Schema"
import { fieldsOf } from "../fields.ts"

/** Converts a schema; `undefined` if the subset cannot express it: it refers to itself, or has objects with arbitrary keys. */
export const closedSchema = (schema: Schema.JsonObject): Schema.JsonObject | undefined => {
  const definitions = fieldsOf(schema.$defs) ?? {}
  const open = new Set<string>()
  const closed = new Set<string>()

  /** Returns `true` if the references from here form a cycle, or leave `$defs`. */
  const isCyclic = (value: unknown): boolean => {
    if (Array.isArray(value)) return value.some(isCyclic)
    const node = fieldsOf(value)
    if (node === undefined) return false
    const name = typeof node.$ref === "string" ? node.$ref : undefined
    if (name !== undefined && !closed.has(name)) {
      const target = /^#\/\$defs\/(.+)$/.exec(name)?.[1]
      if (target === undefined || open.has(name)) return true
      open.add(name)
      if (isCyclic(definitions[unescaped(target)])) return true
      open.delete(name)
      closed.add(name)
    }
    return Object.entries(node).some(([key, inner]) => key !== "$defs" && isCyclic(inner))
  }

  if (isCyclic(schema)) return undefined
  try {
    return closeNode(schema)
  } catch (cause) {
    if (cause === inexpressible) return undefined
    throw cause
  }
}

const unescaped = (pointer: string): string => pointer.replaceAll("~1", "/").replaceAll("~0", "~")

/** Thrown and caught in this module, to leave the recursion. */
const inexpressible = new Error("This schema cannot be expressed here.")

const closeNode = (value: unknown): Schema.JsonObject => {
  const node = fieldsOf(value) as Schema.JsonObject | undefined
  if (node === undefined) throw inexpressible
  const out: Record<string, Schema.Json> = {}
  const rest: Array<string> = []
  for (const [key, inner] of Object.entries(node)) {
    if (inner === undefined || dropped.has(key)) continue
    if (accepted.has(key) || isAccepted(key, inner)) {
      out[key] = inner
      continue
    }
    switch (key) {
      case "items":
        out[key] = closeNode(inner)
        break
      case "anyOf":
      case "allOf":
        out[key] = closeAll(inner)
        break
      case "oneOf":
        out.anyOf = closeAll(inner)
        break
      case "properties":
      case "$defs":
        out[key] = Object.fromEntries(
          Object.entries(fieldsOf(inner) ?? {}).map(([name, property]) => [name, closeNode(property)])
        )
        break
      default:
        rest.push(`${key}: ${JSON.stringify(inner)}`)
    }
  }
  const isObject = node.type === "object" || node.properties !== undefined
  if (isObject) {
    if (takesAnyKey(node)) throw inexpressible
    out.additionalProperties = false
    out.properties ??= {}
  }
  if (!restricting.some((key) => key in out)) throw inexpressible
  if (rest.length > 0) {
    out.description = [node.description, rest.join(", ")].filter((text) => text !== undefined).join("\n")
  }
  return out
}

const closeAll = (values: Schema.Json): ReadonlyArray<Schema.JsonObject> => {
  if (!Array.isArray(values)) throw inexpressible
  return values.map(closeNode)
}

/** Records, and objects without declared properties. */
const takesAnyKey = ({ additionalProperties, patternProperties, properties }: Schema.JsonObject): boolean =>
  patternProperties !== undefined ||
  fieldsOf(additionalProperties) !== undefined ||
  (additionalProperties !== false && fieldsOf(properties) === undefined)

/** A schema without any of these allows every value. */
const restricting = ["type", "enum", "const", "anyOf", "allOf", "$ref"]

/** Keywords that are dropped. */
const dropped = new Set(["$schema", "$id", "$comment", "default", "examples", "additionalProperties"])

const accepted = new Set(["type", "title", "description", "enum", "const", "$ref", "required"])

/** Keywords of which only some values are accepted. */
const isAccepted = (key: string, value: Schema.Json): boolean =>
  (key === "format" && typeof value === "string" && formats.has(value)) ||
  (key === "minItems" && (value === 0 || value === 1))

const formats: ReadonlySet<string> = new Set([
  "date-time",
  "time",
  "date",
  "duration",
  "email",
  "hostname",
  "uri",
  "ipv4",
  "ipv6",
  "uuid"
])
