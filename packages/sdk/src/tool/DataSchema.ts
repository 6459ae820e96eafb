/**
 * A schema for data that a model writes: an Effect Schema, or any Standard Schema such as zod.
 *
 * Both become the same thing: a JSON Schema to show to the model, a decoder that says in words what is wrong, and, where the
 * library has one, the way back to JSON. A schema that cannot be shown to a model is found out when the agent is built, not
 * when the model first calls.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { StandardJSONSchemaV1, StandardSchemaV1 } from "effect/StandardSchema"

/** An Effect Schema without services, or a Standard Schema that knows its JSON Schema. */
export type DataSchema<A> = Schema.Codec<A, unknown> | StandardSchemaV1<unknown, A>

/** A data schema, ready for use. */
export interface Decoder<A> {
  /** JSON Schema, draft 2020-12, of what the model has to write. */
  readonly jsonSchema: Schema.JsonObject
  /** The value, or what is wrong with it in words that a model can act on. */
  readonly decode: (json: unknown) => Effect.Effect<A, string>
  /** The value as JSON again; `undefined` where the library has no way back. */
  readonly encode: ((value: A) => Schema.Json | undefined) | undefined
}

/** A decoder, or why there is none. */
export const decoder = <A>(schema: DataSchema<A>): Result.Result<Decoder<A>, string> =>
  Schema.isSchema(schema)
    ? fromEffect(schema as Schema.Codec<A, unknown>)
    : fromStandard(schema as StandardSchemaV1<unknown, A>)

/** No arguments. The fields that a model sends all the same are ignored; what is neither an object nor empty is a mistake. */
const nothing: Decoder<unknown> = {
  jsonSchema: { type: "object", properties: {}, additionalProperties: false },
  decode: (json) =>
    isNoneAtAll(json) ? Effect.succeed({}) : Effect.fail("Expected no arguments: an empty object, {}"),
  encode: () => ({})
}

/** Some models write an empty list where there is nothing to say. */
const isNoneAtAll = (json: unknown): boolean =>
  Array.isArray(json) ? json.length === 0 : typeof json === "object"

const fromEffect = <A>(schema: Schema.Codec<A, unknown>): Result.Result<Decoder<A>, string> =>
  Result.try({
    try: () => {
      // An empty struct is "anything but null" to Effect, and "no arguments" to a model.
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
      jsonSchema: jsonSchema.input({ target: "draft-2020-12" }) as Schema.JsonObject,
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
