import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { decodeTerms, encodeTerms } from "../../../src/memory/internal/encodedTerms.ts"
import { chunksOf } from "../../../src/memory/internal/passages.ts"
import { porterStem } from "../../../src/memory/internal/porterStem.ts"
import { termsOf } from "../../../src/memory/internal/terms.ts"

describe("porterStem", () => {
  it("stems the examples of the author's description", () => {
    const pairs = {
      caresses: "caress",
      ponies: "poni",
      agreed: "agre",
      plastered: "plaster",
      motoring: "motor",
      conflated: "conflat",
      hopping: "hop",
      falling: "fall",
      filing: "file",
      happy: "happi",
      sky: "sky",
      relational: "relat",
      digitizer: "digit",
      vietnamization: "vietnam",
      triplicate: "triplic",
      hopeful: "hope",
      electrical: "electr",
      revival: "reviv",
      adjustable: "adjust",
      replacement: "replac",
      adoption: "adopt",
      controll: "control",
      roll: "roll",
      rate: "rate",
      cease: "ceas"
    }
    for (const [word, stem] of Object.entries(pairs)) assert.strictEqual(porterStem(word), stem, word)
  })
})

describe("termsOf", () => {
  it("drops the case, accents and frequent words, and keeps numbers and other scripts", () => {
    assert.deepStrictEqual(termsOf("The Café was OPENED in 1858!"), ["cafe", "open", "1858"])
    assert.deepStrictEqual(termsOf("Γειά σου, 世界"), ["γεια", "σου", "世界"])
    assert.deepStrictEqual(termsOf("of the and to"), [])
  })

  it("drops runs of letters and digits that are data", () => {
    assert.deepStrictEqual(termsOf(`key ${"a1".repeat(40)} end`), ["kei", "end"])
  })
})

describe("encodeTerms", () => {
  it("encodes the terms of the chunks of any text, which are its text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 4000 }), (text) => {
        const chunks = chunksOf(text)
        assert.strictEqual(chunks.join(""), text)
        for (const chunk of chunks) assert.isAtMost(chunk.length, 1200)
        assert.isTrue(chunks.every((chunk) => chunk.isWellFormed()) || !text.isWellFormed())
        const { chunks: encoded, head } = decodeTerms(encodeTerms(text))
        assert.deepStrictEqual(encoded, chunks.map(termsOf))
        assert.deepStrictEqual(head, (encoded[0] ?? []).slice(0, head.length))
      })
    )
  })

  it("counts the terms that begin in the first 800 characters as the head", () => {
    const text = `${"word ".repeat(160)}after`
    assert.strictEqual(decodeTerms(encodeTerms(text)).head.length, 160)
  })
})
