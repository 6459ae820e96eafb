/** Arguments that somebody else described by a JSON Schema. */
import * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaRepresentation from "effect/SchemaRepresentation"
import type { StandardJSONSchemaV1, StandardSchemaV1 } from "effect/StandardSchema"
import type { DataSchema } from "../DataSchema.ts"
import { shownSchema } from "./shownSchema.ts"

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
