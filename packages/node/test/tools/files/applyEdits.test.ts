import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as fc from "fast-check"
import { applyEdits, type Edit } from "../../../src/tools/internal/files/applyEdits.ts"

const text = 'export const a = 1\nexport const b = 2\n\nfunction hello() {\n\treturn "hello"\n}\n'
const edited = (before: string, ...edits: ReadonlyArray<Edit>) => Result.getOrThrow(applyEdits(before, edits))
const problem = (before: string, ...edits: ReadonlyArray<Edit>) => {
  const outcome = applyEdits(before, edits)
  assert.isTrue(Result.isFailure(outcome))
  return Result.isFailure(outcome) ? outcome.failure : ""
}

describe("applyEdits", () => {
  it("replaces a text that occurs once", () => {
    const {
      lines,
      places,
      text: after
    } = edited(text, { oldText: "b = 2", newText: "b = 3\nexport const c = 4" })
    assert.strictEqual(after, text.replace("b = 2", "b = 3\nexport const c = 4"))
    assert.deepStrictEqual([places, lines], [1, [2]])
  })

  it("takes the new text as it is, with what a pattern of replacement would read as a reference", () => {
    assert.strictEqual(edited("a", { oldText: "a", newText: "$& $1 $$ $`" }).text, "$& $1 $$ $`")
  })

  it("makes all edits of a call in their order, or none", () => {
    const one = { oldText: "a = 1", newText: "a = 2" }
    assert.strictEqual(
      edited(text, one, { oldText: "a = 2", newText: "a = 3" }).text,
      text.replace("a = 1", "a = 3")
    )
    assert.match(
      problem(text, one, { oldText: "missing", newText: "" }),
      /^Edit 2 of 2: .*Nothing was changed\.$/s
    )
  })

  it("says how often a text occurs and where, and replaces all if it may", () => {
    const several = { oldText: "export const", newText: "const" }
    assert.match(problem(text, several), /occurs 2 times, at the lines 1, 2\./)
    const { lines, places, text: after } = edited(text, { ...several, replaceAll: true })
    assert.strictEqual(after, text.replaceAll("export const", "const"))
    assert.deepStrictEqual([places, lines], [2, [1, 2]])
  })

  it("names the lines of the result, also after later edits move them", () => {
    const { lines } = edited(
      "1\n2\n3\n4\n",
      { oldText: "4", newText: "four" },
      { oldText: "1\n", newText: "one\nand a half\n" }
    )
    assert.deepStrictEqual(lines, [1, 5])
  })

  it("shows the lines that differ in spaces alone", () => {
    const found = problem(text, { oldText: 'function hello() {\n    return "hello"\n}', newText: "" })
    assert.include(found, "The lines 4 to 6 differ from it only in spaces")
    assert.include(found, '5\t\treturn "hello"')
    const quotes = problem("say “no”\n", { oldText: 'say "no"', newText: "" })
    assert.include(quotes, "The line 1 differ")
  })

  it("shows the most similar lines, and says if there are none", () => {
    assert.include(
      problem(text, { oldText: "return 'hello' + 1", newText: "" }),
      'line 5:\n5\t\treturn "hello"'
    )
    assert.include(
      problem(text, { oldText: "zebra { } ???", newText: "" }),
      "No lines of the file are similar"
    )
  })

  it("keeps the line ends of a file whose lines all end with CR LF", () => {
    const crlf = "one\r\ntwo\r\nthree\r\n"
    assert.strictEqual(
      edited(crlf, { oldText: "one\ntwo", newText: "1\n2\n2b" }).text,
      "1\r\n2\r\n2b\r\nthree\r\n"
    )
    assert.strictEqual(edited("a\r\nb\n", { oldText: "b\n", newText: "c\n" }).text, "a\r\nc\n")
  })

  it("refuses an empty text and one that stays as it is", () => {
    assert.match(problem(text, { oldText: "", newText: "x" }), /oldText is empty/)
    assert.match(problem(text, { oldText: "a", newText: "a" }), /are equal/)
  })

  it("does what a replacement of all does, for any text", () => {
    const short = fc.string({ unit: fc.constantFrom("a", "b", "\n"), maxLength: 12 })
    fc.assert(
      fc.property(short, short, short, (before, oldText, newText) => {
        const outcome = applyEdits(before, [{ oldText, newText, replaceAll: true }])
        const isThere = oldText !== "" && before.includes(oldText) && oldText !== newText
        assert.strictEqual(Result.isSuccess(outcome), isThere)
        if (Result.isSuccess(outcome))
          assert.strictEqual(outcome.success.text, before.split(oldText).join(newText))
      })
    )
  })
})
