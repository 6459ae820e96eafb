import { assert, describe, it } from "@effect/vitest"
import { fit } from "../../../src/context/internal/digest.ts"

describe("the beginning of a text for a digest", () => {
  it("splits no pair of surrogates, wherever it is cut", () => {
    const text = "🧾".repeat(100)
    for (let most = 20; most < 150; most += 1) {
      const beginning = fit(text, most, (each) => each.length)
      if (beginning !== undefined) assert.isTrue(beginning.isWellFormed(), `at most ${most}`)
    }
  })

  it("is the whole text if that fits, and nothing if not even some words do", () => {
    const words = (text: string) => text.split(" ").length
    assert.strictEqual(fit("some words", 2, words), "some words")
    assert.isUndefined(fit("a few words more", 1, words))
  })
})
