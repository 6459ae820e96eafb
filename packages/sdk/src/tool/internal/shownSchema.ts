/** A JSON Schema that somebody else wrote, as providers take it for the arguments of a tool. */
import type * as Schema from "effect/Schema"

/** At the top of a schema, OpenAI and Anthropic refuse these, and with them the whole request. */
const refusedAtTop = ["anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else"]

/**
 * A schema as it can be shown, and in words what is left out of it. What it demands is checked all the same.
 *
 * See https://developers.openai.com/api/docs/guides/structured-outputs#root-objects-must-not-be-anyof
 */
export const shownSchema = (
  schema: Schema.JsonObject
): { readonly schema: Schema.JsonObject; readonly words: string } => {
  const refused = Object.entries(schema).filter(([key]) => refusedAtTop.includes(key))
  if (refused.length === 0) return { schema, words: "" }
  let properties: object = {}
  for (const [, value] of refused) {
    for (const branch of Array.isArray(value) ? value : []) {
      properties = { ...propertiesOf(branch), ...properties }
    }
  }
  return {
    schema: {
      ...Object.fromEntries(Object.entries(schema).filter(([key]) => !refusedAtTop.includes(key))),
      properties: { ...properties, ...propertiesOf(schema) } as Schema.JsonObject
    },
    words: `The arguments also have to fit this JSON Schema: ${JSON.stringify(Object.fromEntries(refused))}`
  }
}

const propertiesOf = (schema: unknown): object => {
  const { properties } = (schema ?? {}) as { readonly properties?: unknown }
  return typeof properties === "object" && properties !== null ? properties : {}
}
