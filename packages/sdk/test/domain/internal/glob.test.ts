import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { matchesGlob } from "../../../src/domain/internal/glob.ts"

describe("glob", () => {
  for (const [pattern, subject, matches] of [
    ["a", "a", true],
    ["a", "ab", false],
    ["*", "", true],
    ["", "", true],
    ["", "a", false],
    ["a*", "a", true],
    ["*a", "ba", true],
    ["a*a", "a", false],
    ["a*a", "aa", true],
    ["src/*.ts", "src/deep/a.ts", true],
    ["a*b*c", "axxbyyc", true],
    ["a*b*c", "axxcyyb", false],
    ["*ab*ab*", "ab", false],
    ["**", "anything", true],
    ["a.c", "abc", false],
    ["[a]", "a", false],
    ["*\n*", "a\nb", true]
  ] as const) {
    it(`${matches ? "matches" : "does not match"} ${JSON.stringify(subject)} with ${JSON.stringify(pattern)}`, () => {
      assert.strictEqual(matchesGlob(pattern, subject), matches)
    })
  }

  it("agrees with the equivalent regular expression", () => {
    const word = fc.array(fc.constantFrom("a", "b", "*"), { maxLength: 8 }).map((parts) => parts.join(""))
    fc.assert(
      fc.property(word, fc.array(fc.constantFrom("a", "b"), { maxLength: 10 }), (pattern, letters) => {
        const subject = letters.join("")
        assert.strictEqual(
          matchesGlob(pattern, subject),
          new RegExp(`^${pattern.replaceAll("*", ".*")}$`).test(subject)
        )
      }),
      { numRuns: 1000 }
    )
  })

  it("takes linear time on a pattern with many stars", () => {
    assert.isFalse(matchesGlob("*a".repeat(2000) + "b", "a".repeat(50_000)))
  })
})
