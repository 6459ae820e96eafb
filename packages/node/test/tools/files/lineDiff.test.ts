import { execFileSync } from "node:child_process"
import * as Fs from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { lineDiff } from "../../../src/tools/internal/files/lineDiff.ts"
import { unifiedDiff } from "../../../src/tools/internal/files/unifiedDiff.ts"

const lines = fc.array(fc.constantFrom("a", "b", "c", "d"), { maxLength: 12 })

/** The length of the longest common subsequence, by the table. */
const common = (one: ReadonlyArray<string>, other: ReadonlyArray<string>): number => {
  let row = other.map(() => 0)
  for (const line of one) {
    let diagonal = 0
    row = row.map((above, index) => {
      const found = line === other[index] ? diagonal + 1 : Math.max(above, index === 0 ? 0 : row[index - 1]!)
      diagonal = above
      return found
    })
    for (let index = 1; index < row.length; index += 1) row[index] = Math.max(row[index]!, row[index - 1]!)
  }
  return row.at(-1) ?? 0
}

describe("lineDiff", () => {
  it("leads from the lines before to those after, with the fewest edits", () => {
    fc.assert(
      fc.property(lines, lines, (before, after) => {
        const edits = lineDiff(before, after)
        const kept = (not: string) => edits.filter(({ kind }) => kind !== not).map(({ line }) => line)
        assert.deepStrictEqual(kept("added"), before)
        assert.deepStrictEqual(kept("removed"), after)
        const same = edits.filter(({ kind }) => kind === "same").length
        assert.strictEqual(same, common(before, after))
      })
    )
  })

  it("ends soon for long texts without a common line", () => {
    const before = Array.from({ length: 20_000 }, (_, index) => `old ${index}`)
    const after = before.map((line) => `new ${line}`)
    const start = performance.now()
    const edits = lineDiff(before, after)
    assert.isBelow(performance.now() - start, 5_000)
    assert.strictEqual(edits.length, 40_000)
  })
})

describe("unifiedDiff", () => {
  it("shows a change of any text, also of its line ends", () => {
    const text = fc.string({ unit: fc.constantFrom("a", "\r", "\n", "\r\n", " "), maxLength: 6 })
    fc.assert(
      fc.property(text, text, (before, after) => {
        fc.pre(before !== after)
        const [, , ...changes] = unifiedDiff({ path: "a", before, after }).split("\n")
        assert.isTrue(
          changes.some((line) => /^[-+]/.test(line)),
          JSON.stringify([before, after])
        )
      }),
      { numRuns: 2000 }
    )
  })

  it("makes of the file before the file after, as git applies it", () => {
    const text = fc
      .tuple(fc.array(fc.constantFrom("a", "b", "  c", "", "ü"), { maxLength: 30 }), fc.boolean())
      .map(([each, ends]) => each.join("\n") + (ends && each.length > 0 ? "\n" : ""))
    const directory = Fs.mkdtempSync(join(tmpdir(), "fermata-diff-"))
    try {
      fc.assert(
        fc.property(text, text, (before, after) => {
          if (before === after || before === "" || after === "") return
          Fs.writeFileSync(join(directory, "file.txt"), before)
          const input = `${unifiedDiff({ path: "file.txt", before, after })}\n`
          execFileSync("git", ["apply", "-p0", "--whitespace=nowarn"], { cwd: directory, input })
          assert.strictEqual(Fs.readFileSync(join(directory, "file.txt"), "utf8"), after)
        }),
        { numRuns: 40 }
      )
    } finally {
      Fs.rmSync(directory, { recursive: true })
    }
  })

  it("shows characters that are not visible, and those that change what is shown, as escapes", () => {
    const after = "if (isAdmin\u202e // check\u2066) {\u200b}\n\u001b[2Khidden\n"
    assert.strictEqual(
      unifiedDiff({ path: "a\n+b.ts", before: "if (isAdmin) {}\n", after }),
      [
        "--- a\\n+b.ts",
        "+++ a\\n+b.ts",
        "@@ -1,1 +1,2 @@",
        "-if (isAdmin) {}",
        "+if (isAdmin\\u{202e} // check\\u{2066}) {\\u{200b}}",
        "+\\u{1b}[2Khidden"
      ].join("\n")
    )
  })

  it("shows a carriage return unless all lines end with one", () => {
    const crlf = unifiedDiff({ path: "a", before: "1\r\n2\r\n", after: "1\r\n3\r\n" })
    assert.strictEqual(crlf, "--- a\n+++ a\n@@ -1,2 +1,2 @@\n 1\n-2\n+3")
    const mixed = unifiedDiff({ path: "a", before: "1\n2\n", after: "1\n2\r\n" })
    assert.include(mixed, "-2\n+2\\r")
    const inside = unifiedDiff({ path: "a", before: "1\n", after: "safe\rrm -rf\n" })
    assert.include(inside, "+safe\\rrm -rf")
  })

  it("counts what it leaves out of a diff that is too long, and keeps its beginning and its end", () => {
    const after = Array.from({ length: 50_000 }, (_, index) => `line ${index}\n`).join("")
    const diff = unifiedDiff({ path: "a", before: undefined, after })
    assert.isBelow(diff.length, 101_000)
    const [, characters] =
      /\[… ([\d,]+) characters with [\d,]+ lines of this diff are not shown/.exec(diff) ?? []
    const whole = after.length + 50_000 + "--- /dev/null\n+++ a\n@@ -0,0 +1,50000 @@\n".length - 1
    const mark = /\n\[…[^]*…\]\n/.exec(diff)![0].length
    assert.strictEqual(Number(characters?.replaceAll(",", "")), whole - (diff.length - mark))
    assert.include(diff, "+line 0\n")
    assert.isTrue(diff.endsWith("+line 49999"))
  })
})
