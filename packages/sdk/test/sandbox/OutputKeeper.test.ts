import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { OutputKeeper } from "../../src/sandbox/internal/OutputKeeper.ts"

const encode = (text: string) => new TextEncoder().encode(text)

const chunked = (bytes: Uint8Array, sizes: ReadonlyArray<number>): ReadonlyArray<Uint8Array> => {
  const chunks: Array<Uint8Array> = []
  let at = 0
  for (let index = 0; at < bytes.length; index++) {
    const size = sizes[index % sizes.length]!
    chunks.push(bytes.subarray(at, at + size))
    at += size
  }
  return chunks
}

const keep = (limit: number, chunks: ReadonlyArray<Uint8Array>) => {
  const keeper = new OutputKeeper(limit)
  for (const chunk of chunks) keeper.add(chunk)
  return keeper.end()
}

describe("the kept output of a command", () => {
  it("is the whole output when it fits the limit", () => {
    assert.deepStrictEqual(keep(10, [encode("12345"), encode("67890")]), { text: "1234567890", missing: 0 })
  })

  it("is the head and the tail of a longer output, with the number of missing bytes between them", () => {
    assert.deepStrictEqual(keep(4, [encode("abcdefgh")]), {
      text: "ab\n[4 bytes are missing here]\ngh",
      missing: 4
    })
  })

  it("is cut between characters", () => {
    assert.deepStrictEqual(keep(6, [encode("éé€€éé")]), {
      text: "é\n[10 bytes are missing here]\né",
      missing: 10
    })
  })

  it("does not depend on the chunks in which the output arrives, and contains no replaced character of valid text", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "grapheme", maxLength: 300 }),
        fc.integer({ min: 1, max: 200 }),
        fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 5 }),
        (text, limit, sizes) => {
          const whole = keep(limit, [encode(text)])
          assert.deepStrictEqual(keep(limit, chunked(encode(text), sizes)), whole)
          if (!text.includes("\uFFFD")) assert.isFalse(whole.text.includes("\uFFFD"))
          const marker = `\n[${whole.missing} bytes are missing here]\n`
          const kept = whole.missing === 0 ? whole.text : whole.text.replace(marker, "")
          assert.strictEqual(encode(kept).length + whole.missing, encode(text).length)
        }
      )
    )
  })
})
