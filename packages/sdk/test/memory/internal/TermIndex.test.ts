import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { fuse } from "../../../src/memory/internal/fuse.ts"
import { searchIndexes, TermIndex } from "../../../src/memory/internal/TermIndex.ts"

const words = ["harbor", "berth", "boat", "mira", "peanut", "wind"] as const
const passage = fc.array(fc.constantFrom(...words), { maxLength: 12 })

/** BM25 by its formula, over all passages. */
const naive = (passages: ReadonlyArray<ReadonlyArray<string>>, terms: ReadonlyArray<string>) => {
  const mean = Math.max(
    1,
    passages.reduce((sum, { length }) => sum + length, 0) / Math.max(1, passages.length)
  )
  return passages.map((own) => {
    let score = 0
    for (const term of new Set(terms)) {
      const frequency = passages.filter((other) => other.includes(term)).length
      const count = own.filter((other) => other === term).length
      if (count === 0) continue
      const weight = Math.max(1e-6, Math.log((passages.length - frequency + 0.5) / (frequency + 0.5)))
      score += (weight * count * 2.2) / (count + 1.2 * (0.25 + (0.75 * own.length) / mean))
    }
    return score
  })
}

describe("TermIndex", () => {
  it("scores by BM25, over one index or several, whichever part of a passage was added first", () => {
    fc.assert(
      fc.property(
        fc.array(passage, { minLength: 1, maxLength: 20 }),
        fc.array(fc.constantFrom(...words), { maxLength: 4 }),
        fc.nat(20),
        fc.nat(12),
        (passages, terms, border, cut) => {
          const first = new TermIndex()
          const second = new TermIndex()
          const parts = [passages.slice(0, border), passages.slice(border)] as const
          for (const [at, index] of [first, second].entries()) {
            for (const [number, own] of parts[at]!.entries()) index.add(number, own.slice(0, cut))
            // The rest comes later, as the neighbor of a window does.
            for (const [number, own] of parts[at]!.entries()) index.add(number, own.slice(cut))
          }
          const found = searchIndexes([first, second], terms, 100)
          const scores = new Map(
            found.map(({ index, passage, score }) => [passage + (index === 0 ? 0 : parts[0].length), score])
          )
          for (const [number, score] of naive(passages, terms).entries())
            assert.closeTo(scores.get(number) ?? 0, score, 1e-9)
          // A second search finds the same: nothing of the first is left.
          assert.deepStrictEqual(searchIndexes([first, second], terms, 100), found)
        }
      )
    )
  })

  it("returns the best passages in order, and of equal ones the earlier first", () => {
    const index = new TermIndex()
    for (let number = 0; number < 50; number += 1)
      index.add(number, number % 10 === 3 ? ["harbor", "harbor"] : ["harbor", "wind"])
    const found = searchIndexes([index], ["harbor"], 7).map(({ passage }) => passage)
    assert.deepStrictEqual(found, [3, 13, 23, 33, 43, 0, 1])
  })
})

describe("fuse", () => {
  it("adds the reciprocals of the best ranks", () => {
    const fused = fuse([
      ["a", "b", "a", "c"],
      ["b", "d"]
    ])
    assert.deepStrictEqual(
      fused.map(({ id }) => id),
      ["b", "a", "d", "c"]
    )
    assert.closeTo(fused[0]!.score, 1 / 12 + 1 / 11, 1e-12)
    assert.closeTo(fused[3]!.score, 1 / 14, 1e-12)
  })
})
