import { assert, describe, it } from "@effect/vitest"
import { priced } from "../../src/model/internal/cost.ts"

const prices = {
  input: 2,
  cachedInput: 0.5,
  output: 10,
  tiers: [
    { above: 1000, input: 4, output: 20 },
    { above: 5000, input: 8, output: 40 }
  ]
}
const cost = (usage: Parameters<typeof priced>[1]) => priced({ prices }, usage).costUsd! * 1e6

describe("the cost of a call", () => {
  it("is the sum of cached, written and fresh input and of output", () => {
    assert.closeTo(
      cost({ inputTokens: 100, cachedInputTokens: 40, cacheWriteTokens: 10, outputTokens: 5 }),
      190,
      1e-6
    )
  })

  it("has the rates of the highest tier that the input exceeds, for all tokens", () => {
    assert.closeTo(cost({ inputTokens: 1000, outputTokens: 1 }), 2010, 1e-6)
    assert.closeTo(cost({ inputTokens: 1001, outputTokens: 1 }), 4024, 1e-6)
    // A tier without a cached rate charges its full rate.
    assert.closeTo(cost({ inputTokens: 6000, cachedInputTokens: 6000, outputTokens: 1 }), 48_040, 1e-6)
  })

  it("is the provider's if reported, and unknown without prices", () => {
    const usage = { inputTokens: 100, outputTokens: 5 }
    assert.strictEqual(priced({ prices }, { ...usage, costUsd: 3 }).costUsd, 3)
    assert.isUndefined(priced({}, usage).costUsd)
  })
})
