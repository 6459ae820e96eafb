/**
 * A JSON Schema as `output_config.format` takes it: every object closed, and only the keywords that are known there. What else a
 * schema demands is said in the description; the answer is checked against the whole schema anyway.
 *
 * See https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
 */
import type * as Schema from "effect/Schema"
import { fieldsOf } from "../fields.ts"

/** The schema; `undefined` when it cannot be expressed this way: when it refers to itself, or has objects with any keys. */
export const closedSchema = (schema: Schema.JsonObject): Schema.JsonObject | undefined => {
  const definitions = fieldsOf(schema.$defs) ?? {}
  const open = new Set<string>()
  const closed = new Set<string>()

  /** Whether following the references from here comes back here. */
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

/** Thrown and caught here only, to get out of the recursion. */
const inexpressible = new Error("This schema cannot be expressed here.")

const closeNode = (value: unknown): Schema.JsonObject => {
  const node = fieldsOf(value) as Schema.JsonObject | undefined
  if (node === undefined) throw inexpressible
  const out: Record<string, Schema.Json> = {}
  const rest: Array<string> = []
  for (const [key, inner] of Object.entries(node)) {
    if (inner === undefined || silent.has(key)) continue
    if (known.has(key) || isTaken(key, inner)) {
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
  if (!says.some((key) => key in out)) throw inexpressible
  if (rest.length > 0) {
    out.description = [node.description, rest.join(", ")].filter((text) => text !== undefined).join("\n")
  }
  return out
}

const closeAll = (values: Schema.Json): ReadonlyArray<Schema.JsonObject> => {
  if (!Array.isArray(values)) throw inexpressible
  return values.map(closeNode)
}

/** Records, and objects about which nothing is said. */
const takesAnyKey = ({ additionalProperties, patternProperties, properties }: Schema.JsonObject): boolean =>
  patternProperties !== undefined ||
  fieldsOf(additionalProperties) !== undefined ||
  (additionalProperties !== false && fieldsOf(properties) === undefined)

/** Without one of these a schema allows anything. */
const says = ["type", "enum", "const", "anyOf", "allOf", "$ref"]

/** What says nothing to a model that has to be said. */
const silent = new Set(["$schema", "$id", "$comment", "default", "examples", "additionalProperties"])

const known = new Set(["type", "title", "description", "enum", "const", "$ref", "required"])

/** Keywords of which some values are known. */
const isTaken = (key: string, value: Schema.Json): boolean =>
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
