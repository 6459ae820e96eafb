/** Arguments described by an external JSON Schema. */
import * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaRepresentation from "effect/SchemaRepresentation"
import type { StandardJSONSchemaV1, StandardSchemaV1 } from "effect/StandardSchema"
import type { DataSchema } from "../DataSchema.ts"

/** An object by its names. */
export type Arguments = Readonly<Record<string, unknown>>

/**
 * The schema as a data schema: shown to the model as far as providers take it, with the rest in words, and checked as far as Effect
 * understands it. Whoever described it checks again. Patterns are not tried: those of a stranger may take for ever.
 */
export const fromJsonSchema = (
  schema: Schema.JsonObject
): { readonly parameters: DataSchema<Arguments>; readonly words: string } => {
  const { $schema: dialect, ...whole } = schema
  const check = checkOf(whole, typeof dialect === "string" ? dialect : "")
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

/** Says what is wrong with a value. A schema that Effect cannot read finds nothing wrong. */
const checkOf = (schema: Schema.JsonObject, dialect: string): ((value: unknown) => string | undefined) => {
  try {
    const document = /draft-0[4-7]/.test(dialect)
      ? JsonSchema.fromSchemaDraft07(schema)
      : JsonSchema.fromSchemaDraft2020_12(schema)
    const imported = SchemaRepresentation.fromJsonSchemaDocument(document, { patterns: "ignore" })
    const decode = Schema.decodeUnknownResult(imported as Schema.Codec<unknown, unknown>)
    return (value) => {
      try {
        return Result.match(decode(value), {
          onSuccess: () => undefined,
          onFailure: ({ message }) => message
        })
      } catch {
        return undefined
      }
    }
  } catch {
    return () => undefined
  }
}

/** At the top of a schema, OpenAI and Anthropic refuse these, and with them the whole request. */
const refusedAtTop = ["anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else"]

/**
 * A schema as it can be shown, and in words what is left out of it. What it demands is checked all the same.
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
