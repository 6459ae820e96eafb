import { assert, describe, it } from "@effect/vitest"
import { pricesOf } from "@fermata/node/prices"

const early2026 = new Date("2026-03-01T12:00:00Z")

describe("pricesOf", () => {
  it("knows the prices of a model by its provider's name and by its base URL", () => {
    const prices = { input: 2.5, cachedInput: 1.25, output: 10 }
    assert.deepStrictEqual(pricesOf("openai", "gpt-4o", early2026), prices)
    assert.deepStrictEqual(pricesOf("https://api.openai.com/v1", "gpt-4o-2024-08-06", early2026), prices)
  })

  it("knows the price of writing to a cache", () => {
    assert.deepStrictEqual(pricesOf("anthropic", "claude-opus-4-8"), {
      input: 5,
      cachedInput: 0.5,
      cacheWrite: 6.25,
      output: 25
    })
  })

  it("knows the higher prices of a long context", () => {
    assert.deepStrictEqual(pricesOf("openai", "gpt-5.5"), {
      input: 5,
      cachedInput: 0.5,
      output: 30,
      tiers: [{ above: 271_999, input: 10, cachedInput: 1, output: 45 }]
    })
  })

  it("returns undefined for an unknown model, provider or address", () => {
    assert.isUndefined(pricesOf("openai", "no-such-model"))
    assert.isUndefined(pricesOf("nobody", "gpt-4o"))
    assert.isUndefined(pricesOf("http://127.0.0.1:11434/v1", "gpt-4o"))
  })
})
