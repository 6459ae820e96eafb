/**
 * Whether a provider's strict mode can be asked for: it takes only schemas in which every object names all of its properties as
 * required and allows no other, and refuses the whole request otherwise.
 */
import type * as Schema from "effect/Schema"
import type { Fields } from "../fields.ts"
import { fieldsOf } from "../fields.ts"

/** Whether a JSON Schema can be marked as strict. */
export const allowsStrict = (schema: Schema.JsonObject): boolean => {
  if (schema.type !== "object") return false
  const waiting: Array<unknown> = [schema]
  while (waiting.length > 0) {
    const node = fieldsOf(waiting.pop())
    if (node === undefined || unsupported.some((keyword) => keyword in node)) return false
    if (!says.some((keyword) => keyword in node)) return false
    const types: ReadonlyArray<unknown> = Array.isArray(node.type) ? node.type : [node.type]
    if (types.includes("object")) {
      const { additionalProperties, properties, required } = node
      // Both have to be there, also when there is nothing in them.
      if (fieldsOf(properties) === undefined || !Array.isArray(required) || additionalProperties !== false) {
        return false
      }
      if (Object.keys(properties as Fields).some((name) => !required.includes(name))) return false
    }
    if (types.includes("array")) waiting.push(node.items)
    for (const named of [node.properties, node.$defs, node.definitions]) {
      waiting.push(...Object.values(fieldsOf(named) ?? {}))
    }
    if (Array.isArray(node.anyOf)) waiting.push(...node.anyOf)
  }
  return true
}

// https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
const unsupported = [
  "allOf",
  "oneOf",
  "not",
  "dependentRequired",
  "dependentSchemas",
  "if",
  "patternProperties",
  "prefixItems"
]

/** Without one of these a schema allows anything. */
const says = ["type", "anyOf", "$ref", "enum", "const"]
