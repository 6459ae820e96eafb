/**
 * Schemas for data that a model writes: an Effect Schema, a Standard Schema such as zod's, or a JSON Schema of an object.
 *
 * {@link decoder} makes a {@link Decoder} of each: a JSON Schema for the model, a decoding function, and an encoding function if the
 * schema library has one. A schema without a JSON Schema is refused when an agent that uses it is bound to a runtime, before the first
 * model call.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { StandardJSONSchemaV1, StandardSchemaV1 } from "effect/StandardSchema"
import { messageOf } from "../domain/Display.ts"
import { dataSchemaKind, isJsonSchema, isStandardSchema } from "./internal/dataSchemaKind.ts"
import { fromJsonSchema } from "./internal/fromJsonSchema.ts"
import { lastingSchema } from "./internal/lastingSchema.ts"

/** An Effect Schema that needs no services, or a Standard Schema that implements Standard JSON Schema. */
export type DataSchema<A> = Schema.Codec<A, unknown> | StandardSchemaV1<unknown, A>

/** Decodes and encodes the data of a {@link DataSchema}, and describes it to the model. */
export interface Decoder<A> {
  /** The JSON Schema (draft 2020-12) of the JSON that the model must write. */
  readonly jsonSchema: Schema.JsonObject
  /** Decodes JSON. Fails with a sentence that lets a model correct its data. */
  readonly decode: (json: unknown) => Effect.Effect<A, string>
  /** Encodes a value as JSON, or returns `undefined` if it cannot. `undefined` for a Standard Schema, which has no encoding function. */
  readonly encode: ((value: A) => Schema.Json | undefined) | undefined
}

/**
 * Makes the decoder of a schema. Fails with a sentence if the value is no schema, if the schema has no JSON Schema, or if it is itself a
 * JSON Schema that cannot be checked.
 */
export const decoder = <A>(schema: DataSchema<A> | Schema.JsonObject): Result.Result<Decoder<A>, string> =>
  Schema.isSchema(schema)
    ? fromEffect(schema as Schema.Codec<A, unknown>)
    : isStandardSchema(schema)
      ? fromStandard(schema as StandardSchemaV1<unknown, A>)
      : isJsonSchema(schema)
        ? fromJson(schema)
        : Result.fail(`${dataSchemaKind.takes} is needed`)

/** The decoder of a tool without arguments. Ignores the fields of an object; refuses anything that is neither an object nor empty. */
const nothing: Decoder<unknown> = {
  jsonSchema: { type: "object", properties: {}, additionalProperties: false },
  decode: (json) =>
    isObjectOrEmpty(json) ? Effect.succeed({}) : Effect.fail("Expected no arguments: an empty object, {}"),
  encode: () => ({})
}

/** Whether a model may have written this for no arguments. Some models write `null` or an empty list. */
const isObjectOrEmpty = (json: unknown): boolean =>
  Array.isArray(json) ? json.length === 0 : typeof json === "object"

const fromEffect = <A>(schema: Schema.Codec<A, unknown>): Result.Result<Decoder<A>, string> =>
  Result.try({
    try: () => {
      // Effect's empty struct accepts every value except null; as the arguments of a tool it means none.
      if ("fields" in schema && Object.keys(schema.fields as object).length === 0)
        return nothing as Decoder<A>
      const codec = Schema.toCodecJson(schema)
      const decode = Schema.decodeUnknownEffect(codec)
      const encode = Schema.encodeResult(codec)
      const document = Schema.toJsonSchemaDocument(schema, { onExcessProperty: "error" })
      const definitions =
        Object.keys(document.definitions).length === 0 ? {} : { $defs: document.definitions }
      return {
        jsonSchema: { ...document.schema, ...definitions } as Schema.JsonObject,
        decode: (json: unknown) => Effect.mapErrorEager(decode(json), (error) => error.message),
        encode: (value: A) => {
          const json = encode(value)
          return Result.isSuccess(json) ? (json.success as Schema.Json) : undefined
        }
      }
    },
    catch: (cause) => (cause instanceof Error ? cause.message : String(cause))
  })

const fromJson = <A>(schema: Schema.JsonObject): Result.Result<Decoder<A>, string> =>
  Result.try({
    try: () => fromJsonSchema(schema, "own"),
    catch: (cause) =>
      `Fermata cannot check this JSON Schema (${messageOf(cause)}): use an Effect Schema or a Standard Schema`
  }).pipe(
    Result.flatMap(({ parameters, words }) =>
      Result.map(fromStandard(parameters), ({ decode, jsonSchema }) => ({
        jsonSchema: words === "" ? jsonSchema : withWords(jsonSchema, words),
        decode: decode as Decoder<A>["decode"],
        encode: (value) => value as Schema.Json
      }))
    )
  )

const withWords = (schema: Schema.JsonObject, words: string): Schema.JsonObject => {
  const { description } = schema
  return { ...schema, description: typeof description === "string" ? `${description} ${words}` : words }
}

const fromStandard = <A>(schema: StandardSchemaV1<unknown, A>): Result.Result<Decoder<A>, string> => {
  const props = schema["~standard"] as StandardSchemaV1.Props<unknown, A> &
    Partial<Pick<StandardJSONSchemaV1.Props<unknown, A>, "jsonSchema">>
  const { jsonSchema, validate } = props
  if (jsonSchema === undefined) {
    return Result.fail(
      `this ${props.vendor} schema has no JSON Schema: use a version of ${props.vendor} that implements Standard JSON Schema, or an Effect Schema`
    )
  }
  return Result.try({
    try: () => ({
      jsonSchema: lastingSchema(() => jsonSchema.input({ target: "draft-2020-12" }) as Schema.JsonObject),
      decode: (json: unknown) =>
        Effect.suspend(() => {
          const validated = validate(json)
          return validated instanceof Promise
            ? Effect.flatMap(
                Effect.promise(() => validated),
                fromValidation<A>
              )
            : fromValidation<A>(validated)
        }),
      encode: undefined
    }),
    catch: (cause) => (cause instanceof Error ? cause.message : String(cause))
  })
}

const fromValidation = <A>(validated: StandardSchemaV1.Result<A>): Effect.Effect<A, string> =>
  validated.issues === undefined
    ? Effect.succeed(validated.value)
    : Effect.fail(
        validated.issues
          .map((issue) => {
            const path = (issue.path ?? [])
              .map((key) => String(typeof key === "object" ? key.key : key))
              .join(".")
            return path === "" ? issue.message : `${path}: ${issue.message}`
          })
          .join("; ")
      )
