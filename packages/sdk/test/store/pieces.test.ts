import { assert, describe, it } from "@effect/vitest"
import { inPieces, makeWindow } from "../../src/store/internal/sql/pieces.ts"

const mebibyte = 1024 * 1024

describe("the pieces of a content that arrives as a stream", () => {
  it("are collected in one memory of a MiB, for contents of any length", () => {
    const window = makeWindow()
    const chunk = new Uint8Array(100_000)
    const memories = new Set<ArrayBufferLike>()
    const lengths: Array<number> = []
    for (let index = 1; index <= 40; index += 1) {
      for (let rest = window.fill(chunk.fill(index)); rest.length > 0; rest = window.fill(rest)) {
        memories.add(window.filled().buffer)
        lengths.push(...Array.from(inPieces(window.filled()), ({ length }) => length))
        window.clear()
      }
    }
    assert.strictEqual(memories.size, 1)
    assert.deepStrictEqual(new Set(lengths), new Set([mebibyte / 4]))
    assert.strictEqual(lengths.length * (mebibyte / 4) + window.filled().length, 4_000_000)
  })

  it("take a quarter of that memory when the content is small", () => {
    const window = makeWindow()
    window.fill(new Uint8Array(mebibyte / 4))
    assert.strictEqual(window.filled().buffer.byteLength, mebibyte / 4)
  })
})
