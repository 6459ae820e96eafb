/** Arguments described by an external JSON Schema. */
import * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaRepresentation from "effect/SchemaRepresentation"
import type { StandardJSONSchemaV1, StandardSchemaV1 } from "effect/StandardSchema"

/** Arguments by name. */
export type Arguments = Readonly<Record<string, unknown>>

/** The author of a JSON Schema: the program itself, or a server. */
type Origin = "own" | "foreign"

/**
 * Converts a JSON Schema to a data schema. The model receives the keywords that providers accept; `words` describes the rest. The arguments
 * of a foreign schema are checked as far as Effect supports the schema, and without its patterns, since a foreign regular expression may
 * take exponential time; the rest is up to the server. Those of the program's own schema are checked in full; the function throws if Effect
 * does not support it.
 */
export const fromJsonSchema = (
  schema: Schema.JsonObject,
  origin: Origin = "foreign"
): { readonly parameters: StandardSchemaV1<unknown, Arguments>; readonly words: string } => {
  const { $schema: dialect, ...whole } = schema
  const check = checkOf(whole, typeof dialect === "string" ? dialect : "", origin)
  const { schema: shown, words } = shownSchema(whole)
  const validate = (value: unknown): StandardSchemaV1.Result<Arguments> => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      return { issues: [{ message: "Expected an object" }] }
    }
    const problem = check(value)
    return problem === undefined ? { value: value as Arguments } : { issues: [{ message: problem }] }
  }
  const standard: StandardSchemaV1.Props<unknown, Arguments> &
    StandardJSONSchemaV1.Props<unknown, Arguments> = {
    version: 1,
    vendor: "json-schema",
    validate,
    jsonSchema: { input: () => shown, output: () => shown }
  }
  return { parameters: { "~standard": standard }, words }
}

/** Makes a check that describes what is wrong with a value. A foreign schema that Effect cannot read accepts every value. */
const checkOf = (
  schema: Schema.JsonObject,
  dialect: string,
  origin: Origin
): ((value: unknown) => string | undefined) => {
  try {
    const document = /draft-0[4-7]/.test(dialect)
      ? JsonSchema.fromSchemaDraft07(schema)
      : JsonSchema.fromSchemaDraft2020_12(schema)
    const patterns = origin === "own" ? "apply" : "ignore"
    const imported = SchemaRepresentation.fromJsonSchemaDocument(document, { patterns })
    const decode = Schema.decodeUnknownResult(imported as Schema.Codec<unknown, unknown>)
    return (value) => {
      try {
        return Result.match(decode(value), {
          onSuccess: () => undefined,
          onFailure: ({ message }) => message
        })
      } catch (cause) {
        if (origin === "own") throw cause
        return undefined
      }
    }
  } catch (cause) {
    if (origin === "own") throw cause
    return () => undefined
  }
}

/** Keywords at the top level of a schema for which OpenAI and Anthropic refuse the whole request. */
const refusedAtTop = ["anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else"]

/**
 * Removes the refused keywords from a schema and describes them in words. The shown properties include those of removed branches.
 *
 * See https://developers.openai.com/api/docs/guides/structured-outputs#root-objects-must-not-be-anyof
 */
const shownSchema = (
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
