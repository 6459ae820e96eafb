/**
 * The tools that read files, in runs, on real directories.
 */
import * as Fs from "node:fs"
import { delimiter, join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { FileTools, localSandbox, OptionsInvalid, readOnlyTools, workspaceTools } from "@fermata/node"
import * as Effect from "effect/Effect"
import { temporaryDirectory } from "../sandbox/temporaryDirectory.ts"
import { caller, type Outcome } from "./calling.ts"

/** A directory with these files, and the calls of tools in it. */
const project = (
  files: Readonly<Record<string, string | Uint8Array>>,
  options: FileTools.FileToolOptions = {}
) =>
  Effect.gen(function* () {
    const { workdir: root } = yield* temporaryDirectory
    for (const [path, content] of Object.entries(files)) {
      Fs.mkdirSync(join(root, path, ".."), { recursive: true })
      Fs.writeFileSync(join(root, path), content)
    }
    return { root, call: yield* caller({ tools: readOnlyTools({ root, ...options }) }) }
  })

const numbered = (count: number) =>
  Array.from({ length: count }, (_, index) => `line ${index + 1}\n`).join("")
const png = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex")

describe("read_file", () => {
  it.live("returns the lines of a file with their numbers", () =>
    Effect.gen(function* () {
      const { call } = yield* project({ "src/a.ts": "one\n\ttwo\n\nfour" })
      const { asked, outcome, result } = yield* call("read_file", { path: "src/a.ts" })
      assert.strictEqual(outcome, "completed")
      assert.isUndefined(asked)
      assert.strictEqual(
        result,
        "     1\tone\n     2\t\ttwo\n     3\t\n     4\tfour\n[The last line has no line end.]"
      )
    })
  )

  it.live("returns a range, and says how to read on", () =>
    Effect.gen(function* () {
      const { call } = yield* project({ a: numbered(5_000) })
      const part = yield* call("read_file", { path: "a", startLine: 2, endLine: 3 })
      assert.strictEqual(
        part.result,
        "     2\tline 2\n     3\tline 3\n[Lines 2 to 3 of 5,000. To read on, call read_file with startLine 4.]"
      )
      const first = yield* call("read_file", { path: "a" })
      assert.match(first.result, /\n {2}2000\tline 2000\n\[Lines 1 to 2000 of 5,000\. .* startLine 2001\.\]$/)
      const last = yield* call("read_file", { path: "a", startLine: 4_001 })
      assert.match(last.result, /\n {2}5000\tline 5000\n\[Lines 4001 to 5000 of 5,000\.\]$/)
      const beyond = yield* call("read_file", { path: "a", startLine: 5_001 })
      assert.include(beyond.result, "The file has 5,000 lines: startLine 5001 is after its end.")
    })
  )

  it.live("gives the lines of a file that is read in parts exactly once each", () =>
    Effect.gen(function* () {
      const lines = Array.from({ length: 3_000 }, (_, index) => `${index} ${"x".repeat(index % 90)}`)
      const { call } = yield* project({ a: lines.join("\n") })
      const read: Array<string> = []
      for (let startLine: number | undefined = 1; startLine !== undefined;) {
        const part: Outcome = yield* call("read_file", { path: "a", startLine })
        const { result } = part
        read.push(...[...result.matchAll(/^ *\d+\t(.*)$/gm)].map(([, line = ""]) => line))
        const next: string | undefined = /startLine (\d+)\./.exec(result)?.[1]
        startLine = next === undefined ? undefined : Number(next)
      }
      assert.deepStrictEqual(read, lines)
    })
  )

  it.live("marks what it leaves out of a long line", () =>
    Effect.gen(function* () {
      const { call } = yield* project({ a: `${"😀".repeat(1_500)}\nb\n`, b: "y".repeat(80_000) })
      const { result } = yield* call("read_file", { path: "a" })
      assert.include(result, "[… 1,000 more characters of this line; to see more of it, read it alone …]")
      assert.isTrue(result.isWellFormed())
      const alone = yield* call("read_file", { path: "a", startLine: 1, endLine: 1 })
      assert.include(alone.result, `     1\t${"😀".repeat(1_500)}\n`)
      const longer = yield* call("read_file", { path: "b" })
      assert.include(longer.result, "[… 20,000 more characters of this line …]")
    })
  )

  it.live("decodes UTF-16 and windows-1252, and says so", () =>
    Effect.gen(function* () {
      const { call } = yield* project({
        mark: Buffer.from("\uFEFFgrüß\n", "utf8"),
        little: Buffer.from("\uFEFFgrüß\n", "utf16le"),
        big: Buffer.from("\uFEFFgrüß\n", "utf16le").swap16(),
        latin: Buffer.from("grüß €\n".replace("€", "\x80"), "latin1"),
        crlf: "a\r\nb\r\n",
        empty: ""
      })
      const read = (path: string) => Effect.map(call("read_file", { path }), ({ result }) => result)
      assert.strictEqual(yield* read("mark"), "     1\tgrüß\n[The encoding is UTF-8 with a byte order mark.]")
      assert.strictEqual(yield* read("little"), "     1\tgrüß\n[The encoding is UTF-16 (little endian).]")
      assert.strictEqual(yield* read("big"), "     1\tgrüß\n[The encoding is UTF-16 (big endian).]")
      assert.include(yield* read("latin"), "     1\tgrüß €\n[The encoding is windows-1252")
      assert.strictEqual(yield* read("crlf"), "     1\ta\n     2\tb\n[Its lines end with CR LF.]")
      assert.strictEqual(yield* read("empty"), "[The file is empty.]")
    })
  )

  it.live("attaches images and PDFs, and refuses other binary files in words", () =>
    Effect.gen(function* () {
      const { call } = yield* project(
        {
          "a.png": png,
          "b.pdf": "%PDF-1.7\n",
          c: new Uint8Array([1, 2, 0, 3]),
          "d.png": Buffer.concat([png, png])
        },
        { maxFileSize: 20 }
      )
      assert.deepStrictEqual((yield* call("read_file", { path: "a.png" })).files, ["image/png"])
      assert.deepStrictEqual((yield* call("read_file", { path: "b.pdf" })).files, ["application/pdf"])
      const binary = yield* call("read_file", { path: "c" })
      assert.strictEqual(binary.outcome, "failed")
      assert.include(binary.result, 'The file "c" is binary (4 bytes)')
      const large = yield* call("read_file", { path: "d.png" })
      assert.include(large.result, "Files of more than 20 bytes are not attached.")
    })
  )

  it.live("reads lines of a file that is larger than it reads as a whole", () =>
    Effect.gen(function* () {
      const line = "0123456789 ünïcode 0123456789"
      const { call, root } = yield* project({})
      Fs.writeFileSync(join(root, "log"), `${line}\n`.repeat(400_000))
      const { result } = yield* call("read_file", { path: "log", startLine: 300_000, endLine: 300_001 })
      assert.include(result, `300000\t${line}\n300001\t${line}\n[Lines 300000 to 300001 of a larger file.`)
      const last = yield* call("read_file", { path: "log", startLine: 399_999 })
      assert.include(last.result, `400000\t${line}\n[Lines 399999 to 400000 of 400,000.`)
      const beyond = yield* call("read_file", { path: "log", startLine: 400_001 })
      assert.include(beyond.result, "The file has 400,000 lines: startLine 400001 is after its end.")
    })
  )

  it.live("asks before it reads a place with credentials, also under a policy that lets all run", () =>
    Effect.gen(function* () {
      const { workdir: root } = yield* temporaryDirectory
      Fs.writeFileSync(join(root, ".env"), "TOKEN_VALUE=1\n")
      const tools = readOnlyTools({ root })
      const held = yield* (yield* caller({ tools }))("read_file", { path: ".env" })
      assert.include(held.asked?.preview ?? "", `Read .env\nPlace: ${join(root, ".env")} (this machine)`)
      assert.include(held.asked?.risk ?? "", "credentials")
      const approved = yield* (yield* caller({ tools }))("read_file", { path: ".env" }, { decide: "approve" })
      assert.include(approved.result, "     1\t")
      const all = yield* (yield* caller({ tools, policy: { mode: "all" } }))("read_file", { path: ".env" })
      assert.strictEqual(all.asked?.always, "The path can hold credentials.")
    })
  )
})

describe("list_dir", () => {
  it.live("lists names in order, with kinds, sizes and depth, and without large directories", () =>
    Effect.gen(function* () {
      const { call, root } = yield* project({
        "b/inner/deep.txt": "x",
        "b/c.txt": "12",
        "a.txt": "1,",
        ".env": "SECRET=1",
        "node_modules/x/index.js": "",
        "odd\nname": ""
      })
      Fs.symlinkSync("a.txt", join(root, "link"))
      const flat = yield* call("list_dir", {})
      assert.strictEqual(
        flat.result,
        ".env\tnot readable without approval\na.txt\t2 bytes\nb/\nlink\tlink\nnode_modules/\nodd\\nname\t0 bytes"
      )
      const deep = yield* call("list_dir", { path: "./", depth: 3 })
      assert.include(deep.result, "b/\nb/c.txt\t2 bytes\nb/inner/\nb/inner/deep.txt\t1 byte\n")
      assert.include(deep.result, "node_modules/\tnot listed here\n")
      assert.strictEqual((yield* call("list_dir", { path: "b/inner" })).result, "deep.txt\t1 byte")
    })
  )

  it.live("never lists more than its bound, and counts the rest", () =>
    Effect.gen(function* () {
      const files = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`f${index + 10}`, ""]))
      const { call } = yield* project(files)
      const { result } = yield* call("list_dir", { maxEntries: 10 })
      assert.lengthOf(result.split("\n"), 11)
      assert.match(result, /f19\t0 bytes\n\[At least 20 more names are not shown\./)
    })
  )

  it.live("says what a path is that it cannot list", () =>
    Effect.gen(function* () {
      const { call } = yield* project({ "a.txt": "" })
      assert.include(
        (yield* call("list_dir", { path: "a.txt" })).result,
        "is a file: read it with read_file."
      )
      assert.include((yield* call("list_dir", { path: "none" })).result, "does not exist")
      assert.include(
        (yield* call("list_dir", { path: ".." })).result,
        "is refused: it is outside of the workspace"
      )
    })
  )
})

const searched = {
  ".gitignore": "dist/\n*.log\n",
  ".env": "NEEDLE_TOKEN=1\n",
  ".hidden/a.txt": "needle hidden\n",
  "dist/out.js": "needle ignored\n",
  "x.log": "needle ignored\n",
  "src/a.ts": "one\nconst needle = 1\nthree\nfour\nfive\nconst NEEDLE = needle\n",
  "src/deep/b.ts": "// needle\r\nend\r\n",
  "src/c.md": "a.b needle\naxb\n",
  "image.bin": new Uint8Array([0, 110, 101, 101, 100, 108, 101])
}

/** Hides ripgrep, or shows it if it is installed. */
const withPath = <A, E, R>(path: string, effect: Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const before = process.env["PATH"]
      process.env["PATH"] = path
      return before
    }),
    () => effect,
    (before) => Effect.sync(() => void (process.env["PATH"] = before))
  )

const ripgrepPath = process.env["PATH"] ?? ""
const hasRipgrep = ripgrepPath.split(delimiter).some((directory) => Fs.existsSync(join(directory, "rg")))

describe.each([
  ["ripgrep", ripgrepPath, hasRipgrep],
  ["the search of its own", "", true]
] as const)("search_files with %s", (_, path, isThere) => {
  const search = (args: object, files: Parameters<typeof project>[0] = searched) =>
    Effect.scoped(
      withPath(
        path,
        Effect.gen(function* () {
          const { call } = yield* project(files)
          return (yield* call("search_files", args)).result
        })
      )
    )

  it.live.skipIf(!isThere)("finds lines by a pattern, without hidden and ignored files", () =>
    Effect.gen(function* () {
      assert.strictEqual(
        yield* search({ pattern: "needle" }),
        [
          "src/a.ts",
          "  2: const needle = 1",
          "  6: const NEEDLE = needle",
          "src/c.md",
          "  1: a.b needle",
          "src/deep/b.ts",
          "  1: // needle",
          "[4 matches in 3 files.]"
        ].join("\n")
      )
    })
  )

  it.live.skipIf(!isThere)("takes a glob, a path, a literal text, case and lines around", () =>
    Effect.gen(function* () {
      assert.include(yield* search({ pattern: "needle", glob: "*.md" }), "[1 match in 1 file.]")
      assert.include(
        yield* search({ pattern: "needle", glob: "src/**/*.{md,ts}" }),
        "[4 matches in 3 files.]"
      )
      assert.include(
        yield* search({ pattern: "needle$", path: "src/deep" }),
        "src/deep/b.ts\n  1: // needle\n"
      )
      assert.include(yield* search({ pattern: "needle", path: "src/a.ts" }), "[2 matches in 1 file.]")
      assert.include(yield* search({ pattern: "a.b", literal: true }), "[1 match in 1 file.]")
      assert.include(yield* search({ pattern: "a.b" }), "[2 matches in 1 file.]")
      assert.include(yield* search({ pattern: "^const needle", ignoreCase: true }), "[2 matches in 1 file.]")
      assert.strictEqual(
        yield* search({ pattern: "= 1|five", context: 1, glob: "a.ts" }),
        "src/a.ts\n  1- one\n  2: const needle = 1\n  3- three\n  4- four\n  5: five\n  6- const NEEDLE = needle\n[2 matches in 1 file.]"
      )
    })
  )

  it.live.skipIf(!isThere)("finds files by a glob", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* search({ glob: "*.ts" }), "src/a.ts\nsrc/deep/b.ts\n[2 files.]")
      assert.strictEqual(yield* search({ glob: "*.nothing" }), "[No files were found.]")
    })
  )

  it.live.skipIf(!isThere)(
    "searches hidden and ignored files if it is asked to, but none with credentials",
    () =>
      Effect.gen(function* () {
        const result = yield* search({ pattern: "needle", ignoreCase: true, all: true })
        assert.include(result, ".hidden/a.txt\n")
        assert.include(result, "dist/out.js\n")
        assert.notInclude(result, "NEEDLE_TOKEN")
        assert.include(result, "Not searched: 1 file that cannot be read without approval.")
      })
  )

  it.live.skipIf(!isThere)("never returns more than its bounds", () =>
    Effect.gen(function* () {
      const few = yield* search({ pattern: "needle", maxResults: 2 })
      assert.include(few, "There are more than 2 matches")
      assert.lengthOf(few.match(/^ +\d+: /gm) ?? [], 2)
      const long = yield* search({ pattern: "x" }, { "a.min.js": `${"x".repeat(10_000)}\n`.repeat(500) })
      assert.isBelow(long.length, 61_000)
      assert.include(long, "[… 9,500 more characters …]")
    })
  )
})

describe("search_files", () => {
  it.live("takes time in proportion to the text for a pattern that makes others go back", () =>
    Effect.gen(function* () {
      const { call } = yield* project({ a: `${"a".repeat(20_000)}!\n`.repeat(20) })
      const start = performance.now()
      const { result } = yield* call("search_files", { pattern: "^(a+)+$" })
      assert.strictEqual(result, "[Nothing was found.]")
      assert.isBelow(performance.now() - start, 10_000)
    })
  )

  it.live("says what is wrong with a pattern, a glob and a file", () =>
    Effect.gen(function* () {
      const { call } = yield* project({ bin: new Uint8Array([0, 1]) })
      const search = (args: object) => Effect.map(call("search_files", args), ({ result }) => result)
      assert.include(yield* search({ pattern: "(a" }), "no regular expression of RE2")
      assert.include(yield* search({ pattern: "a(?=b)" }), "RE2 has no look-around")
      assert.include(yield* search({ pattern: "" }), "The pattern is empty")
      assert.include(yield* search({ pattern: "a", glob: "[" }), "The glob [ is malformed")
      assert.include(
        yield* search({ pattern: "a", path: "bin" }),
        'The file "bin" cannot be searched: it is no text.'
      )
      assert.include(yield* search({ pattern: "a", path: "../" }), "outside of the workspace")
    })
  )
})

describe("the toolsets", () => {
  it("refuse options that are none", () => {
    for (const make of [readOnlyTools, workspaceTools, FileTools.readFile, FileTools.editFile])
      for (const options of [
        [],
        { roots: "." },
        { root: "" },
        { root: "a\0b" },
        { root: ".", rules: { write: 1 } },
        { rules: { read: ["."] } },
        { maxFileSize: 0 },
        { searchTimeout: "soon" },
        { searchTimeout: 0 }
      ] as ReadonlyArray<object>)
        assert.throws(() => make(options), OptionsInvalid.OptionsInvalid, "", JSON.stringify(options))
  })

  it("have tools for commands in the sandbox of the run, and with a root only if they are asked for", () => {
    const names = (tools: ReadonlyArray<{ readonly name: string }>) => tools.map(({ name }) => name).join(" ")
    const reading = "read_file list_dir search_files"
    const files = `${reading} write_file edit_file`
    const commands = "run_shell shell_output shell_stop"
    assert.strictEqual(names(readOnlyTools({ root: "." })), reading)
    assert.strictEqual(names(workspaceTools({ root: "." })), files)
    assert.strictEqual(names(workspaceTools({ root: ".", shell: {} })), `${files} ${commands}`)
    assert.strictEqual(names(workspaceTools()), `${files} ${commands}`)
    assert.strictEqual(names(workspaceTools({ shell: false })), files)
    for (const shell of [true, null, { rules: 1 }, "no"])
      assert.throws(
        () => workspaceTools({ shell } as never),
        OptionsInvalid.OptionsInvalid,
        "",
        String(shell)
      )
    assert.throws(() => workspaceTools("." as never), OptionsInvalid.OptionsInvalid)
  })

  it.live("act in the sandbox of the run without a root", () =>
    Effect.gen(function* () {
      const { workdir } = yield* temporaryDirectory
      Fs.writeFileSync(join(workdir, "a.txt"), "here\n")
      const call = yield* caller({ tools: workspaceTools(), sandbox: localSandbox({ workdir }) })
      assert.include((yield* call("read_file", { path: "a.txt" })).result, "here")
      assert.include((yield* call("search_files", { pattern: "here" })).result, "a.txt\n  1: here")
      const { asked } = yield* call("write_file", { path: "b.txt", content: "b\n" }, { decide: "approve" })
      assert.include(asked?.preview ?? "", `Place: ${join(workdir, "b.txt")} (this machine, not confined)`)
      assert.strictEqual(Fs.readFileSync(join(workdir, "b.txt"), "utf8"), "b\n")
    })
  )
})
