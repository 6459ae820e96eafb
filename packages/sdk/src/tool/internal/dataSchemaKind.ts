/**
 * The check of a schema from a program without types.
 */
import * as Schema from "effect/Schema"
import type { StandardSchemaV1 } from "effect/StandardSchema"
import { jsonObject, type Kind } from "../../domain/internal/misfits.ts"

/** The schemas that `decoder` accepts. */
export const dataSchemaKind: Kind = {
  takes:
    'an Effect Schema, a Standard Schema such as z.object({ ... }), or a JSON Schema with type: "object"',
  is: (value) => Schema.isSchema(value) || isStandardSchema(value) || isJsonSchema(value)
}

export const isStandardSchema = (value: unknown): value is StandardSchemaV1 =>
  ((typeof value === "object" && value !== null) || typeof value === "function") && "~standard" in value

export const isJsonSchema = (value: unknown): value is Schema.JsonObject =>
  jsonObject.is(value) && (value as Schema.JsonObject)["type"] === "object"
