import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { decoder } from "../../src/tool/DataSchema.ts"
import { fromJsonSchema } from "../../src/tool/internal/fromJsonSchema.ts"

const decoderOf = (schema: Schema.JsonObject) => Result.getOrThrow(decoder(fromJsonSchema(schema).parameters))

describe("a foreign JSON Schema", () => {
  it.effect("is shown without its `$schema`, and checks arguments but accepts further properties", () =>
    Effect.gen(function* () {
      const shown = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] }
      for (const version of [
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema"
      ]) {
        const { decode, jsonSchema } = decoderOf({ $schema: version, ...shown })
        assert.deepStrictEqual(jsonSchema, shown)
        assert.deepStrictEqual(yield* decode({ n: 1, more: true }), { n: 1, more: true })
        assert.strictEqual(yield* Effect.flip(decode({ n: "1" })), 'Expected number\n  at ["n"]')
        assert.include(yield* Effect.flip(decode({})), "n")
        assert.strictEqual(yield* Effect.flip(decode([1])), "Expected an object")
      }
    })
  )

  it.effect("is not checked where Effect cannot read it", () =>
    Effect.gen(function* () {
      const { decode } = decoderOf({ type: "object", if: { required: ["a"] }, then: { required: ["b"] } })
      assert.deepStrictEqual(yield* decode({ a: 1 }), { a: 1 })
    })
  )

  it.effect("is shown without a top-level anyOf, which its words contain and its decoder checks", () =>
    Effect.gen(function* () {
      const either = {
        anyOf: [{ required: ["id"] }, { properties: { name: { type: "string" } }, required: ["name"] }]
      }
      const own = { type: "object", properties: { id: { type: "integer" } } }
      const { parameters, words } = fromJsonSchema({ ...own, ...either })
      const { decode, jsonSchema } = Result.getOrThrow(decoder(parameters))
      assert.deepStrictEqual(jsonSchema, {
        type: "object",
        properties: { id: { type: "integer" }, name: { type: "string" } }
      })
      assert.include(words, JSON.stringify(either))
      assert.deepStrictEqual(yield* decode({ id: 1 }), { id: 1 })
      assert.include(yield* Effect.flip(decode({ id: "1" })), "id")
      assert.strictEqual(fromJsonSchema(own).words, "")
    })
  )

  it.effect("is checked without a pattern that takes exponential time", () =>
    Effect.gen(function* () {
      const { decode } = decoderOf({
        type: "object",
        properties: { s: { type: "string", pattern: "^(a+)+$" } }
      })
      assert.deepStrictEqual(yield* decode({ s: `${"a".repeat(60)}!` }), { s: `${"a".repeat(60)}!` })
    })
  )
})
