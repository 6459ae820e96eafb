import * as Fs from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { PathGuard } from "@fermata/node"
import * as Effect from "effect/Effect"
import { guardOf } from "../../src/guard/internal/guarded.ts"
import { parseRules } from "../../src/guard/internal/pathRules.ts"
import { workspace } from "./workspace.ts"

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)

/** The reason of a refusal. */
const refusal = <A>(effect: Effect.Effect<A, PathGuard.AccessError>) =>
  Effect.map(Effect.flip(effect), ({ reason }) => reason)

describe.each([
  ["open directories", true],
  ["paths alone", false]
] as const)("PathGuard with %s", (_, byDescriptor) => {
  const make = (rules: PathGuard.Rules) =>
    byDescriptor ? PathGuard.make(rules) : guardOf({ rules: parseRules(rules), byDescriptor })

  it.effect("replaces a file as a whole and keeps its permissions", () =>
    Effect.gen(function* () {
      const { root } = yield* workspace
      const guard = make({ write: [root] })
      const before = Fs.statSync(join(root, "src/index.ts"))
      yield* guard.writeFile("src/index.ts", "export const a = 1\n")
      const after = Fs.statSync(join(root, "src/index.ts"))
      assert.notStrictEqual(after.ino, before.ino)
      assert.strictEqual(after.mode, before.mode)
      assert.deepStrictEqual(Fs.readdirSync(join(root, "src")), ["index.ts"])
    })
  )
  it.effect("writes through a link in the workspace and keeps the link", () =>
    Effect.gen(function* () {
      const { root } = yield* workspace
      Fs.symlinkSync("src/index.ts", join(root, "to-index"))
      yield* make({ write: [root] }).writeFile("to-index", "new")
      assert.isTrue(Fs.lstatSync(join(root, "to-index")).isSymbolicLink())
      assert.strictEqual(Fs.readFileSync(join(root, "src/index.ts"), "utf8"), "new")
    })
  )
  it.effect("creates a file only once with mustBeNew", () =>
    Effect.gen(function* () {
      const { root } = yield* workspace
      const guard = make({ write: [root] })
      yield* guard.writeFile("new/deep/a.txt", "1", { mustBeNew: true })
      assert.strictEqual(
        yield* refusal(guard.writeFile("new/deep/a.txt", "2", { mustBeNew: true })),
        "exists"
      )
      assert.strictEqual(text(yield* guard.readFile("new/deep/a.txt")), "1")
      assert.deepStrictEqual(Fs.readdirSync(join(root, "new/deep")), ["a.txt"])
    })
  )
  it.effect("does what a rule asks about once a person has allowed it, and nothing that it denies", () =>
    Effect.gen(function* () {
      const { root } = yield* workspace
      const guard = make({
        write: [root],
        places: [...PathGuard.credentials, { pattern: "private", decision: "deny" }]
      })
      assert.strictEqual(yield* refusal(guard.writeFile(".git/hooks/pre-push", "x")), "executedLater")
      yield* guard.writeFile(".git/hooks/pre-push", "x", { approved: true })
      assert.strictEqual(yield* refusal(guard.writeFile(".env", "A=1")), "sensitive")
      yield* guard.writeFile(".env", "A=1", { approved: true })
      assert.strictEqual(yield* refusal(guard.readFile(".env")), "sensitive")
      assert.strictEqual(text(yield* guard.readFile(".env", { approved: true })), "A=1")
      assert.strictEqual(yield* refusal(guard.writeFile("private/x", "x", { approved: true })), "sensitive")
      assert.strictEqual(yield* refusal(guard.readFile("../out/secret.txt", { approved: true })), "outside")
      assert.strictEqual(yield* refusal(guard.writeFile("fermata.db", "x", { approved: true })), "own")
      assert.strictEqual(yield* refusal(guard.readFile("hard", { approved: true })), "hardLink")
    })
  )
  it.effect("reads a directory that may only be read, and changes nothing in it", () =>
    Effect.gen(function* () {
      const { root, top } = yield* workspace
      const guard = make({ write: [root], read: [join(top, "ws-evil")] })
      assert.include(text(yield* guard.readFile("../ws-evil/x.txt")), "SECRET")
      assert.strictEqual(yield* refusal(guard.writeFile("../ws-evil/x.txt", "x")), "readOnly")
      assert.strictEqual(yield* refusal(guard.remove("../ws-evil/x.txt", { approved: true })), "readOnly")
      assert.strictEqual(yield* refusal(guard.rename("../ws-evil/x.txt", "src/x.txt")), "readOnly")
    })
  )
  it.effect("knows the files of Fermata by their inode, under every name", () =>
    Effect.gen(function* () {
      const { root } = yield* workspace
      Fs.mkdirSync(join(root, "data"))
      Fs.writeFileSync(join(root, "data/runs.sqlite"), "store")
      Fs.linkSync(join(root, "data/runs.sqlite"), join(root, "notes.txt"))
      const guard = make({ write: [root], own: [join(root, "data/runs.sqlite")], hardLinks: "allow" })
      assert.strictEqual(yield* refusal(guard.readFile("notes.txt")), "own")
      assert.strictEqual(yield* refusal(guard.writeFile("notes.txt", "x")), "own")
      assert.strictEqual(yield* refusal(guard.remove("notes.txt")), "own")
      assert.strictEqual(yield* refusal(guard.rename("notes.txt", "b.txt")), "own")
      assert.strictEqual(
        yield* refusal(guard.rename("src/index.ts", "notes.txt", { mayReplace: true })),
        "own"
      )
      assert.strictEqual(yield* refusal(guard.writeFile("data/runs.sqlite-wal", "x")), "own")
      assert.strictEqual(yield* refusal(guard.rename("data", "other")), "own")
      assert.strictEqual(yield* refusal(guard.remove("data", { recursive: true })), "own")
      yield* guard.writeFile("data/runs.sqlite2", "x")
    })
  )
  it.effect("reads no file above the limit, and parts of it by its offset", () =>
    Effect.gen(function* () {
      const { root } = yield* workspace
      const guard = make({ write: [root], maxBytes: 10 })
      assert.strictEqual(yield* refusal(guard.readFile("big")), "tooLarge")
      assert.strictEqual(yield* refusal(guard.readFile("package.json", { maxBytes: 2 })), "tooLarge")
      assert.strictEqual(text(yield* guard.readFile("package.json", { maxBytes: 3 })), "{}\n")
      const part = yield* Effect.scoped(
        Effect.flatMap(guard.openRead("src/index.ts"), (file) => file.read(7, 2))
      )
      assert.strictEqual(text(part), "{}")
    })
  )
  it.effect("lists names with their types, follows no link, and says if there are more", () =>
    Effect.gen(function* () {
      const { root } = yield* workspace
      const guard = make({ write: [root] })
      const { entries, isComplete } = yield* guard.list(".")
      assert.isTrue(isComplete)
      const typeOf = (name: string) => entries.find((entry) => entry.name === name)?.type
      assert.deepStrictEqual(["src", "package.json", "link-out", "fifo"].map(typeOf), [
        "directory",
        "file",
        "link",
        "other"
      ])
      assert.isFalse((yield* guard.list(".", { maxEntries: 3 })).isComplete)
      assert.strictEqual(yield* refusal(guard.list("link-out")), "outside")
      assert.strictEqual(yield* refusal(guard.list("package.json")), "notDirectory")
      assert.strictEqual((yield* guard.stat("fifo")).type, "other")
      assert.strictEqual((yield* guard.stat(".")).type, "directory")
      assert.strictEqual((yield* guard.stat("src/index.ts")).sizeBytes, 10)
      assert.strictEqual(yield* refusal(guard.stat("link-file")), "outside")
    })
  )
  it.effect("removes a link and not what it leads to, and a directory with the links in it", () =>
    Effect.gen(function* () {
      const { outside, root, top } = yield* workspace
      const guard = make({ write: [root] })
      const before = outside()
      Fs.mkdirSync(join(root, "tree/deep"), { recursive: true })
      Fs.symlinkSync(join(top, "out"), join(root, "tree/deep/out"))
      yield* guard.remove("link-out")
      assert.strictEqual(yield* refusal(guard.remove("tree")), "notEmpty")
      yield* guard.remove("tree", { recursive: true })
      assert.isFalse(Fs.existsSync(join(root, "tree")))
      assert.deepStrictEqual(outside(), before)
      assert.strictEqual(yield* refusal(guard.remove(".", { recursive: true })), "root")
      assert.strictEqual(yield* refusal(guard.remove("..", { recursive: true })), "outside")
    })
  )
  it.effect("asks before a name makes a file sensitive, executed, or readable", () =>
    Effect.gen(function* () {
      const { root } = yield* workspace
      const guard = make({ write: [root] })
      Fs.mkdirSync(join(root, "x/workflows"), { recursive: true })
      Fs.writeFileSync(join(root, ".env"), "A=1")
      assert.strictEqual(yield* refusal(guard.rename("x", ".github")), "executedLater")
      assert.strictEqual(yield* refusal(guard.rename(".env", "notes.txt")), "sensitive")
      assert.strictEqual(yield* refusal(guard.rename("src/index.ts", "Makefile")), "executedLater")
      assert.strictEqual(yield* refusal(guard.rename("src/index.ts", "../x")), "outside")
      assert.strictEqual(yield* refusal(guard.rename("src/index.ts", "package.json")), "executedLater")
      assert.strictEqual(yield* refusal(guard.makeDirectory(".git/hooks")), "executedLater")
      assert.strictEqual(yield* refusal(guard.makeDirectory("link-out/new")), "outside")
      yield* guard.makeDirectory("made/deep")
      yield* guard.makeDirectory("made/deep")
      yield* guard.rename("src/index.ts", "made/deep/main.ts")
      assert.strictEqual(yield* refusal(guard.rename("made/deep/main.ts", "big")), "exists")
    })
  )
  it.effect("renames nothing that may not be read to a name that may be read", () =>
    Effect.gen(function* () {
      const { root } = yield* workspace
      const guard = make({ write: [root], places: [{ pattern: "src", access: "read", decision: "deny" }] })
      yield* guard.writeFile("src/new.txt", "x")
      assert.strictEqual(
        yield* refusal(guard.rename("src/new.txt", "notes.txt", { approved: true })),
        "sensitive"
      )
      assert.strictEqual(yield* refusal(guard.rename("src", "other")), "sensitive")
    })
  )
  it.effect("judges a place by the strictest rule, under its own name and under the one that was given", () =>
    Effect.gen(function* () {
      const { root } = yield* workspace
      const guard = make({
        write: [root],
        places: [
          { pattern: "src", decision: "ask" },
          { pattern: "src/*.ts", access: "write", decision: "deny" },
          { pattern: "docs", decision: "deny", except: ["docs/public"] }
        ]
      })
      const judged = (path: string, access: PathGuard.Access) =>
        Effect.map(guard.judge(path, access), ({ decision }) => decision)
      assert.strictEqual(yield* judged("inner-link/index.ts", "read"), "ask")
      assert.strictEqual(yield* judged("src/index.ts", "write"), "deny")
      assert.strictEqual(yield* judged("docs/a.md", "read"), "deny")
      assert.strictEqual(yield* judged("docs/public/a.md", "read"), "allow")
      assert.deepStrictEqual(yield* guard.judge("./a/../a/new.txt", "write"), {
        decision: "allow",
        place: join(root, "a/new.txt")
      })
    })
  )
})

describe("PathGuard", () => {
  it("refuses rules that are none", () => {
    for (const rules of [
      { roots: ["."] },
      { write: "." },
      { write: [""] },
      { places: [{ pattern: "/", decision: "deny" }] }
    ])
      assert.throws(
        () => PathGuard.make(rules as PathGuard.Rules),
        /The options of PathGuard.make are invalid/
      )
  })
  it("says what runs a file later", () => {
    assert.match(PathGuard.executedLater("packages/a/.git/config") ?? "", /version control/)
    assert.match(PathGuard.executedLater("package.json") ?? "", /package manager/)
    assert.isUndefined(PathGuard.executedLater("src/index.ts"))
  })
  it("compares 10,000 long names within 100 milliseconds", () => {
    const start = performance.now()
    PathGuard.executedLater("a".repeat(255) + "/" + "*".repeat(255))
    assert.isBelow(performance.now() - start, 100)
  })
})
