import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { StandardSchemaV1 } from "effect/StandardSchema"
import { z } from "zod"
import type { DataSchema } from "../../src/tool/DataSchema.ts"
import { decoder } from "../../src/tool/DataSchema.ts"

const make = <A>(schema: DataSchema<A>) => Result.getOrThrow(decoder(schema))
const keys = (value: unknown) => Object.keys(value as object)

describe("an Effect Schema", () => {
  const Deploy = Schema.Struct({
    env: Schema.Literals(["staging", "production"]).annotate({ description: "Where to" }),
    replicas: Schema.Int,
    note: Schema.optionalKey(Schema.String),
    force: Schema.Boolean.pipe(Schema.withDecodingDefaultKey(Effect.succeed(false))),
    since: Schema.optionalKey(Schema.DateFromString)
  })

  it("is shown to the model as the JSON Schema of its encoded form", () => {
    const { jsonSchema } = make(Deploy)
    assert.strictEqual(jsonSchema["type"], "object")
    assert.deepStrictEqual(keys(jsonSchema["properties"]), ["env", "replicas", "note", "force", "since"])
    assert.deepStrictEqual(jsonSchema["required"], ["env", "replicas"])
    const { env, since } = jsonSchema["properties"] as Record<string, Record<string, unknown>>
    assert.strictEqual(env?.["description"], "Where to")
    assert.deepStrictEqual(env?.["enum"], ["staging", "production"])
    assert.strictEqual(since?.["type"], "string")
  })

  it.effect("decodes with defaults and transformations", () =>
    Effect.gen(function* () {
      const value = yield* make(Deploy).decode({
        env: "staging",
        replicas: 2,
        since: "2026-01-02T00:00:00.000Z"
      })
      assert.deepStrictEqual(value, {
        env: "staging",
        replicas: 2,
        force: false,
        since: new Date("2026-01-02T00:00:00.000Z")
      })
    })
  )

  it.effect("encodes its values back to JSON", () =>
    Effect.gen(function* () {
      const { decode, encode } = make(Deploy)
      const json = { env: "staging", replicas: 2, force: true, since: "2026-01-02T00:00:00.000Z" }
      assert.deepStrictEqual(encode?.((yield* decode(json)) as never), json)
    })
  )

  it.effect("names the wrong or missing field in its error", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(make(Deploy).decode({ env: "moon", replicas: 2 }))
      assert.include(error, "env")
      assert.include(error, "staging")
      assert.include(yield* Effect.flip(make(Deploy).decode({ env: "staging" })), "replicas")
    })
  )

  it("defines the references of a recursive type", () => {
    interface Tree {
      readonly label: string
      readonly kids: ReadonlyArray<Tree>
    }
    const Tree: Schema.Codec<Tree> = Schema.Struct({
      label: Schema.String,
      kids: Schema.Array(Schema.suspend((): Schema.Codec<Tree> => Tree))
    }).annotate({ identifier: "Tree" })
    const { jsonSchema } = make(Schema.Struct({ root: Tree }) as unknown as DataSchema<unknown>)
    const text = JSON.stringify(jsonSchema)
    for (const [, name] of text.matchAll(/"\$ref":"#\/\$defs\/([^"]+)"/g)) {
      assert.property(jsonSchema["$defs"], name!)
    }
    assert.include(text, "$ref")
  })

  it.effect("accepts an object, null or an empty list when it has no fields, and decodes it to {}", () =>
    Effect.gen(function* () {
      const { jsonSchema, decode } = make(Schema.Struct({}) as unknown as DataSchema<unknown>)
      assert.deepStrictEqual(jsonSchema, { type: "object", properties: {}, additionalProperties: false })
      for (const sent of [{}, null, [], { junk: 1 }]) assert.deepStrictEqual(yield* decode(sent), {})
      for (const sent of [5, true, "now", [1]]) {
        assert.include(yield* Effect.flip(decode(sent)), "Expected no arguments")
      }
    })
  )

  it.effect("takes symbols and big integers, which JSON does not have, as text", () =>
    Effect.gen(function* () {
      const { decode, encode, jsonSchema } = make(
        Schema.Struct({ big: Schema.BigInt, symbol: Schema.Symbol })
      )
      const { big, symbol } = jsonSchema["properties"] as Record<string, Record<string, unknown>>
      assert.deepStrictEqual([big?.["type"], symbol?.["type"]], ["string", "string"])
      const json = { big: "12", symbol: "Symbol(blue)" }
      const value = yield* decode(json)
      assert.deepStrictEqual(value, { big: 12n, symbol: Symbol.for("blue") })
      assert.deepStrictEqual(encode?.(value), json)
    })
  )
})

describe("a zod schema", () => {
  const Deploy = z.object({
    env: z.enum(["staging", "production"]).describe("Where to"),
    replicas: z.number().int().default(1),
    tags: z.array(z.string()).optional()
  })

  it("is shown to the model as the JSON Schema of its input", () => {
    const { jsonSchema } = make(Deploy as DataSchema<unknown>)
    assert.strictEqual(jsonSchema["type"], "object")
    assert.deepStrictEqual(jsonSchema["required"], ["env"])
    const { env } = jsonSchema["properties"] as Record<string, Record<string, unknown>>
    assert.strictEqual(env?.["description"], "Where to")
  })

  it.effect("decodes with defaults, and has no encoder", () =>
    Effect.gen(function* () {
      const { decode, encode } = make(Deploy as DataSchema<unknown>)
      assert.deepStrictEqual(yield* decode({ env: "staging" }), { env: "staging", replicas: 1 })
      assert.isUndefined(encode)
    })
  )

  it("is shown without the defaults that a function makes, which differ between processes", () => {
    let made = 0
    const random = () => `id ${(made += 1)}`
    const inner = z.object({ at: z.number().default(() => Date.now()), zone: z.string().default("utc") })
    const schema = z.object({
      id: z.string().default(random),
      default: z.object({ key: z.string().default(random) }).optional(),
      tags: z.array(inner).default([]),
      extra: z.record(z.string(), z.unknown()).default(() => ({ made: random() }))
    })
    const { jsonSchema } = make(schema as DataSchema<unknown>)
    assert.deepStrictEqual(make(schema as DataSchema<unknown>).jsonSchema, jsonSchema)
    const { default: named, extra, id, tags } = jsonSchema["properties"] as Record<string, any>
    assert.deepStrictEqual(id, { type: "string" })
    assert.deepStrictEqual(named.properties, { key: { type: "string" } })
    assert.notProperty(extra, "default")
    assert.deepStrictEqual(tags.default, [])
    assert.deepStrictEqual(tags.items.properties, {
      at: { type: "number" },
      zone: { default: "utc", type: "string" }
    })
  })

  it.effect("names every wrong field in its error", () =>
    Effect.gen(function* () {
      const { decode } = make(Deploy as DataSchema<unknown>)
      const error = yield* Effect.flip(decode({ env: "moon", tags: ["a", 2] }))
      assert.include(error, "env: ")
      assert.include(error, "tags.1: ")
      assert.include(error, "; ")
    })
  )

  it("is refused with the reason when it cannot be written as JSON Schema", () => {
    const refused = [
      [z.bigint(), "BigInt cannot be represented in JSON Schema"],
      [z.symbol(), "Symbols cannot be represented in JSON Schema"],
      [z.date(), "Date cannot be represented in JSON Schema"],
      [z.map(z.string(), z.string()), "Map cannot be represented in JSON Schema"],
      [z.custom(), "Custom types cannot be represented in JSON Schema"]
    ] as const
    for (const [field, reason] of refused) {
      const made = decoder(z.object({ field }) as DataSchema<unknown>)
      assert.deepStrictEqual(made, Result.fail(reason))
    }
  })

  it.effect("may be asynchronous", () =>
    Effect.gen(function* () {
      const schema = z.object({ id: z.string().refine(async (id) => id !== "taken", "is taken") })
      const { decode } = make(schema as DataSchema<unknown>)
      assert.deepStrictEqual(yield* decode({ id: "free" }), { id: "free" })
      assert.strictEqual(yield* Effect.flip(decode({ id: "taken" })), "id: is taken")
    })
  )
})

describe("another Standard Schema", () => {
  it("is refused when it has no JSON Schema", () => {
    const schema: StandardSchemaV1<unknown, string> = {
      "~standard": { version: 1, vendor: "acme", validate: () => ({ value: "" }) }
    }
    const made = decoder(schema)
    assert.isTrue(Result.isFailure(made))
    if (Result.isFailure(made)) assert.include(made.failure, "acme schema has no JSON Schema")
  })
})
