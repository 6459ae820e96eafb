import { execFileSync } from "node:child_process"
import * as Fs from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { alternatives, matchesGlob, parseGlob } from "../../../src/tools/internal/files/globs.ts"
import { isIgnored, parseRules } from "../../../src/tools/internal/files/ignoreRules.ts"

const paths = [
  "a.log",
  "b.txt",
  "build/a.log",
  "build/keep.txt",
  "src/a.ts",
  "src/build/x.ts",
  "src/deep/er/a.log",
  "src/deep/er/b.txt",
  "doc/a b.txt",
  "doc/[x].txt",
  "#name",
  "!bang"
]

const lines = fc.constantFrom(
  "*.log",
  "!a.log",
  "build",
  "build/",
  "/build",
  "/build/",
  "build/*",
  "!build/keep.txt",
  "src/**",
  "src/**/a.log",
  "**/er",
  "**/er/",
  "src/deep/",
  "!src/deep",
  "deep/er",
  "a?b.txt",
  "a b.txt",
  "[ab].*",
  "[!a].txt",
  "\\[x].txt",
  "\\#name",
  "#name",
  "\\!bang",
  "*",
  "!*/",
  "!*.ts",
  "er/*.txt",
  "  ",
  "b.txt   ",
  "/",
  "**",
  "/*",
  "src/*/er"
)

/** The files that the rules leave, as a walk finds them: what is in an ignored directory is not looked at. */
const left = (rules: ReturnType<typeof parseRules>) =>
  paths.filter((path) => {
    const names = path.split("/")
    return names.every((_, index) => !isIgnored([rules], names.slice(0, index + 1), index < names.length - 1))
  })

describe("ignore rules", () => {
  it("ignore what git ignores", () => {
    const directory = Fs.mkdtempSync(join(tmpdir(), "fermata-ignore-"))
    try {
      for (const path of paths) {
        Fs.mkdirSync(join(directory, dirname(path)), { recursive: true })
        Fs.writeFileSync(join(directory, path), "")
      }
      const git = (...args: ReadonlyArray<string>) =>
        execFileSync("git", ["-c", "core.excludesFile=/dev/null", "-c", "core.quotePath=false", ...args], {
          cwd: directory,
          encoding: "utf8"
        })
      git("init", "-q")
      fc.assert(
        fc.property(fc.array(lines, { maxLength: 5 }), (each) => {
          const text = each.join("\n")
          Fs.writeFileSync(join(directory, ".gitignore"), `${text}\n.gitignore\n`)
          const listed = git("ls-files", "--others", "--exclude-standard", "-z").split("\0").filter(Boolean)
          assert.deepStrictEqual(left(parseRules([], [text])).toSorted(), listed.toSorted(), text)
        }),
        { numRuns: 150 }
      )
    } finally {
      Fs.rmSync(directory, { recursive: true })
    }
  }, 60_000)

  it("apply below their own directory", () => {
    const rules = [parseRules([], ["*.log"]), parseRules(["src"], ["!a.log", "/only.txt"])]
    const ignored = (path: string) => isIgnored(rules, path.split("/"), false)
    assert.deepStrictEqual(
      ["a.log", "src/a.log", "src/b.log", "src/only.txt", "src/x/only.txt", "only.txt"].filter(ignored),
      ["a.log", "src/b.log", "src/only.txt"]
    )
  })
})

const matches = (pattern: string, path: string) => matchesGlob(parseGlob(pattern) ?? [], path.split("/"))

describe("globs", () => {
  it.each([
    ["*.ts", "a.ts", true],
    ["*.ts", "a.tsx", false],
    ["**/a.ts", "x/y/a.ts", true],
    ["src/**/a.ts", "src/a.ts", true],
    ["src/**", "src/a/b", true],
    ["src/*", "src/a/b", false],
    ["[a-c]?.ts", "bx.ts", true],
    ["[!a-c]*", "b", false],
    ["\\*", "*", true],
    ["\\*", "a", false],
    ["*a*b*c*", "xxaxxbxxc", true]
  ] as const)("compares %s with %s", (pattern, path, expected) => {
    assert.strictEqual(matches(pattern, path), expected)
  })

  it("takes no longer for a pattern that makes others go back", () => {
    const start = performance.now()
    assert.isFalse(matches(`${"*a".repeat(200)}b`, "a".repeat(5_000)))
    assert.isFalse(matches(`${"**/a/".repeat(100)}b`, "a/".repeat(500) + "c"))
    assert.isBelow(performance.now() - start, 5_000)
  })

  it("expands alternatives, and refuses too many", () => {
    assert.deepStrictEqual(alternatives("*.{js,ts}"), ["*.js", "*.ts"])
    assert.deepStrictEqual([...(alternatives("{a,{b,c}}.x") ?? [])].sort(), ["a.x", "b.x", "c.x"])
    assert.deepStrictEqual(alternatives("a{b"), ["a{b"])
    assert.isUndefined(alternatives("{a,b}".repeat(10)))
  })
})
