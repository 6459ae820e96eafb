import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { canonicalJson, isDeeperThan } from "../../../src/domain/internal/json.ts"

describe("canonicalJson", () => {
  it("is equal for equal values with keys in another order", () => {
    assert.strictEqual(
      canonicalJson({ b: [1, { d: null, c: "x" }], a: true }),
      '{"a":true,"b":[1,{"c":"x","d":null}]}'
    )
    assert.strictEqual(canonicalJson(undefined), "null")
  })

  it("parses to the same value, and differs for different values", () => {
    const value = fc.jsonValue({ maxDepth: 4 })
    fc.assert(
      fc.property(value, value, (a, b) => {
        const normal = (json: unknown) => JSON.parse(JSON.stringify(json)) as unknown
        assert.deepStrictEqual(JSON.parse(canonicalJson(a as never)), normal(a))
        const isSame = canonicalJson(a as never) === canonicalJson(b as never)
        let isEqual = true
        try {
          assert.deepStrictEqual(normal(a), normal(b))
        } catch {
          isEqual = false
        }
        assert.strictEqual(isSame, isEqual)
      })
    )
  })

  it("keeps prototype keys as data", () => {
    assert.strictEqual(canonicalJson(JSON.parse('{"b":1,"__proto__":2}')), '{"__proto__":2,"b":1}')
  })

  it("has a check of nesting depth that does not recurse", () => {
    const nested = JSON.parse("[".repeat(100_000) + "]".repeat(100_000)) as unknown
    assert.isTrue(isDeeperThan(nested, 1000))
    assert.isFalse(isDeeperThan(nested, 100_000))
    assert.deepStrictEqual(
      [isDeeperThan(1, 0), isDeeperThan([], 0), isDeeperThan({ a: [] }, 2)],
      [false, true, false]
    )
  })
})
