/**
 * The tools that change files, in runs, on real directories.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as Fs from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { FileTools, type Tool, workspaceTools } from "@fermata/node"
import * as Effect from "effect/Effect"
import { sourceFlags } from "../../../../scripts/internal/sourceFlags.ts"
import { expireLeases } from "../expireLeases.ts"
import { openWriter, type Writing } from "../programs/writer.ts"
import { temporaryDirectory } from "../sandbox/temporaryDirectory.ts"
import { caller, type Calling } from "./calling.ts"

const start = "export const a = 1\nexport const b = 2\n"

/** A directory with `src/a.ts`, and the calls of tools in it. */
const project = (calling: Omit<Calling, "tools"> = {}) =>
  Effect.gen(function* () {
    const { workdir: root } = yield* temporaryDirectory
    Fs.mkdirSync(join(root, "src"))
    Fs.writeFileSync(join(root, "src/a.ts"), start, { mode: 0o640 })
    const read = (path: string) => Fs.readFileSync(join(root, path), "utf8")
    return { root, read, call: yield* caller({ tools: workspaceTools({ root }), ...calling }) }
  })

const edit = { path: "src/a.ts", edits: [{ oldText: "a = 1", newText: "a = 2" }] }

describe("write_file and edit_file", () => {
  it.live("show the exact place and a diff, and change nothing before the approval", () =>
    Effect.gen(function* () {
      const { call, read, root } = yield* project()
      const { asked } = yield* call("edit_file", edit)
      assert.strictEqual(
        asked?.preview,
        [
          "Edit src/a.ts",
          `Place: ${join(root, "src/a.ts")} (this machine)`,
          "Before: 2 lines, 38 bytes. After: 2 lines, 38 bytes",
          "",
          "--- src/a.ts",
          "+++ src/a.ts",
          "@@ -1,2 +1,2 @@",
          "-export const a = 1",
          "+export const a = 2",
          " export const b = 2"
        ].join("\n")
      )
      assert.strictEqual(asked?.safety, "sideEffecting")
      assert.match(JSON.stringify(asked?.facts), /"before":"sha256:[0-9a-f]{64}"/)
      assert.strictEqual(read("src/a.ts"), start)
      const denied = yield* call("edit_file", edit, { decide: "deny" })
      assert.strictEqual(denied.outcome, "denied")
      assert.strictEqual(read("src/a.ts"), start)
    })
  )

  it.live("make the approved change, and keep the permissions of the file", () =>
    Effect.gen(function* () {
      const { call, read, root } = yield* project()
      const edited = yield* call("edit_file", edit, { decide: "approve" })
      assert.strictEqual(
        edited.result,
        "Changed 1 place of src/a.ts, at the line 1. It has 2 lines, 38 bytes now."
      )
      assert.strictEqual(read("src/a.ts"), start.replace("a = 1", "a = 2"))
      assert.strictEqual(Fs.statSync(join(root, "src/a.ts")).mode & 0o777, 0o640)
      const created = yield* call(
        "write_file",
        { path: "new/deep/b.ts", content: "b\n" },
        { decide: "approve" }
      )
      assert.strictEqual(created.result, "Created new/deep/b.ts: 1 line, 2 bytes.")
      assert.include(
        created.asked?.preview ?? "",
        "New: 1 line, 2 bytes\n\n--- /dev/null\n+++ new/deep/b.ts\n"
      )
      assert.strictEqual(read("new/deep/b.ts"), "b\n")
      const same = yield* call("write_file", { path: "new/deep/b.ts", content: "b\n" }, { decide: "approve" })
      assert.include(same.asked?.preview ?? "", "Nothing changes")
    })
  )

  it.live("ask again if the file has changed since its diff was shown", () =>
    Effect.gen(function* () {
      for (const [tool, args] of [
        ["edit_file", edit],
        ["write_file", { path: "src/a.ts", content: "all new\n" }]
      ] as const) {
        const { call, read, root } = yield* project()
        let asked = 0
        yield* call(tool, args, {
          decide: "approve",
          beforeDecision: () => {
            asked += 1
            if (asked === 1) Fs.appendFileSync(join(root, "src/a.ts"), "// of a person\n")
          }
        })
        assert.strictEqual(asked, 2)
        assert.strictEqual(read("src/a.ts").includes("// of a person"), tool === "edit_file")
      }
    })
  )

  it.live("ask again if the path leads elsewhere since it was shown", () =>
    Effect.gen(function* () {
      const { call, read, root } = yield* project()
      Fs.mkdirSync(join(root, "one"))
      Fs.mkdirSync(join(root, "two"))
      Fs.symlinkSync("one", join(root, "place"))
      let asked = 0
      yield* call(
        "write_file",
        { path: "place/x.txt", content: "x\n" },
        {
          decide: "approve",
          beforeDecision: () => {
            asked += 1
            if (asked > 1) return
            Fs.unlinkSync(join(root, "place"))
            Fs.symlinkSync("two", join(root, "place"))
          }
        }
      )
      assert.strictEqual(asked, 2)
      assert.isFalse(Fs.existsSync(join(root, "one/x.txt")))
      assert.strictEqual(read("two/x.txt"), "x\n")
    })
  )

  it.live("fail without asking for a change that cannot be made", () =>
    Effect.gen(function* () {
      const { call, root } = yield* project()
      Fs.writeFileSync(join(root, "bin"), new Uint8Array([0, 1, 2]))
      const failing = (path: string, oldText = "x") =>
        Effect.map(
          call("edit_file", { path, edits: [{ oldText, newText: "y" }] }),
          ({ asked, outcome, result }) => {
            assert.isUndefined(asked)
            assert.strictEqual(outcome, "failed")
            return result
          }
        )
      assert.include(
        yield* failing("src/a.ts", "export let a"),
        "The most similar line 1:\n1\texport const a = 1"
      )
      assert.include(yield* failing("src/a.ts", "export"), "occurs 2 times, at the lines 1, 2")
      assert.include(yield* failing("none.ts"), "does not exist")
      assert.include(yield* failing("bin"), "is no text")
      assert.include(yield* failing("../a.ts"), "outside of the workspace")
      assert.include(yield* failing("fermata.db"), "belongs to the program that runs you")
    })
  )

  it.live("say that other programs run the file later, and ask about it under every policy", () =>
    Effect.gen(function* () {
      const hook = { path: ".git/hooks/pre-commit", content: "#!/bin/sh\n" }
      const { call, read } = yield* project()
      const { asked } = yield* call("write_file", hook, { decide: "approve" })
      assert.include(asked?.preview ?? "", "\nEXECUTED LATER: version control runs hooks")
      assert.include(asked?.risk ?? "", "runs later, without another question")
      assert.strictEqual(read(".git/hooks/pre-commit"), "#!/bin/sh\n")

      const all = yield* project({ policy: { mode: "all" } })
      const always = yield* all.call("write_file", hook)
      assert.include(always.asked?.always ?? "", "The file is executed later: version control runs hooks")
      for (const path of ["package.json", ".github/workflows/ci.yml", ".bashrc", ".env"])
        yield* all.call("write_file", { path, content: "{}\n" })
      assert.deepStrictEqual(Fs.readdirSync(all.root), ["src"])
      const ordinary = yield* all.call("write_file", { path: "src/b.ts", content: "b\n" })
      assert.strictEqual(ordinary.outcome, "completed")
      assert.strictEqual(all.read("src/b.ts"), "b\n")
    })
  )

  it.live("refuse in the body what asks, unless a decision has approved the call", () =>
    Effect.gen(function* () {
      const { read, root } = yield* project()
      const { handler } = FileTools.writeFile({ root }).options
      const hook = { path: ".git/hooks/pre-commit", content: "#!/bin/sh\n" }
      const body = (isApproved: boolean) =>
        handler(hook, { isApproved } as never) as Effect.Effect<string, Error>
      assert.include((yield* Effect.flip(body(false))).message, "It needs an approval.")
      assert.deepStrictEqual(Fs.readdirSync(root), ["src"])
      yield* body(true)
      assert.strictEqual(read(".git/hooks/pre-commit"), "#!/bin/sh\n")
    })
  )

  it.live("show the model nothing of a file with credentials before a person has approved", () =>
    Effect.gen(function* () {
      const { call, root } = yield* project()
      Fs.writeFileSync(join(root, ".env"), "MODE=production\nLEVEL=3\n")
      const guess = (oldText: string) =>
        call("edit_file", { path: ".env", edits: [{ oldText, newText: "LEVEL=9" }] })
      const right = yield* guess("LEVEL=3")
      const wrong = yield* guess("LEVEL=4")
      assert.strictEqual(right.result + wrong.result, "")
      assert.deepStrictEqual(right.asked?.facts, wrong.asked?.facts)
      assert.include(right.asked?.preview ?? "", "+LEVEL=9")
      assert.include(wrong.asked?.preview ?? "", "oldText does not occur in the file")
    })
  )

  it.live("keep the encoding and the line ends of a file", () =>
    Effect.gen(function* () {
      const { call, root } = yield* project()
      const change = (path: string, before: Uint8Array, newText = "ß\nx") =>
        Effect.gen(function* () {
          Fs.writeFileSync(join(root, path), before)
          const edits = [{ oldText: "grün\nb", newText }]
          const { result } = yield* call("edit_file", { path, edits }, { decide: "approve" })
          return [Fs.readFileSync(join(root, path)), result] as const
        })
      const bytes = (text: string, encoding: BufferEncoding) => Buffer.from(text, encoding)
      const utf16 = yield* change("a", bytes("\uFEFFgrün\r\nb\r\n", "utf16le"))
      assert.deepStrictEqual(utf16[0], bytes("\uFEFFß\r\nx\r\n", "utf16le"))
      const mark = yield* change("b", bytes("\uFEFFgrün\nb\n", "utf8"))
      assert.deepStrictEqual(mark[0], bytes("\uFEFFß\nx\n", "utf8"))
      const latin = yield* change("c", bytes("grün\nb\n", "latin1"))
      assert.deepStrictEqual(latin[0], bytes("ß\nx\n", "latin1"))
      const lacking = yield* change("d", bytes("grün\nb\n", "latin1"), "日")
      assert.deepStrictEqual(lacking[0], bytes("grün\nb\n", "latin1"))
      assert.include(lacking[1], "lacks a character of newText")
    })
  )
})

describe("the outcome of a change whose process was killed", { timeout: 60_000 }, () => {
  const killed = Effect.fnUntraced(function* (writing: Writing, when: "before" | "after") {
    const { top, workdir: directory } = yield* temporaryDirectory
    const store = join(top, "runs.db")
    const file = join(directory, "notes.txt")
    Fs.writeFileSync(file, "one\n")
    Fs.utimesSync(file, new Date(0), new Date(0))
    const program = join(import.meta.dirname, "../programs/writer.ts")
    const args = [...sourceFlags, program, store, directory, writing, when]
    const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] })
    const [, signal] = yield* Effect.promise(() => once(child, "exit"))
    assert.strictEqual(signal, "SIGKILL")
    assert.strictEqual(Fs.readFileSync(file, "utf8"), when === "before" ? "one\n" : "one\ntwo\n")
    expireLeases(store)
    const fermata = yield* Effect.acquireRelease(
      Effect.promise(() => openWriter({ store, directory, writing })),
      (fermata) => Effect.promise(() => fermata[Symbol.asyncDispose]())
    )
    const resume = Effect.promise(() => fermata.resume("w"))
    return { file, resume }
  })

  it.live("is found in the file if it happened", () =>
    Effect.gen(function* () {
      const { file, resume } = yield* killed("edit_file", "after")
      const inode = Fs.statSync(file).ino
      const run = yield* resume
      assert.strictEqual(run.status, "completed")
      assert.strictEqual(Fs.readFileSync(file, "utf8"), "one\ntwo\n")
      assert.strictEqual(Fs.statSync(file).ino, inode, "it was not written again")
    })
  )

  it.live("is made as it was approved if the file is older than the call", () =>
    Effect.gen(function* () {
      const { file, resume } = yield* killed("write_file", "before")
      const run = yield* resume
      assert.strictEqual(run.status, "completed")
      assert.strictEqual(Fs.readFileSync(file, "utf8"), "one\ntwo\n")
    })
  )

  it.live("is asked about if another program has changed the file meanwhile", () =>
    Effect.gen(function* () {
      const { file, resume } = yield* killed("edit_file", "after")
      Fs.writeFileSync(file, "of a person\n")
      const run = yield* resume
      assert.strictEqual(run.status, "interrupted")
      assert.strictEqual(run.status === "interrupted" && run.interruptions[0]?._tag, "inDoubt")
      assert.strictEqual(Fs.readFileSync(file, "utf8"), "of a person\n")
    })
  )

  it.live("asks again before the change if the file has changed, and the change has not happened", () =>
    Effect.gen(function* () {
      const { file, resume } = yield* killed("write_file", "before")
      Fs.writeFileSync(file, "of a person\n")
      Fs.utimesSync(file, new Date(0), new Date(0))
      const run = yield* resume
      assert.strictEqual(run.status, "interrupted")
      assert.strictEqual(run.status === "interrupted" && run.interruptions[0]?._tag, "approval")
      assert.strictEqual(Fs.readFileSync(file, "utf8"), "of a person\n")
    })
  )
})

describe("reconcile of a change", () => {
  it.live("finds the outcome in the file and its age, and trusts no age if the start was lost", () =>
    Effect.gen(function* () {
      const { workdir: root } = yield* temporaryDirectory
      const file = join(root, "a.txt")
      const outcome = (content: string, age: "older" | "newer", args: object, startedAt?: number) => {
        Fs.writeFileSync(file, content)
        if (age === "older") Fs.utimesSync(file, new Date(0), new Date(0))
        const { reconcile } = ("edits" in args ? FileTools.editFile : FileTools.writeFile)({ root }).options
        const asked = reconcile!("key", { path: "a.txt", ...args }, { startedAt } as never)
        return Effect.map(asked as Effect.Effect<Tool.Reconciled>, ({ _tag }) => _tag)
      }
      const write = { content: "new\n" }
      const insert = { edits: [{ oldText: "a\n", newText: "a\nb\n" }] }
      const remove = { edits: [{ oldText: "a\n", newText: "" }] }
      const now = Date.now()
      assert.strictEqual(yield* outcome("old\n", "older", write, now), "notHappened")
      assert.strictEqual(yield* outcome("old\n", "older", write), "unknown")
      assert.strictEqual(yield* outcome("old\n", "newer", write, now), "unknown")
      assert.strictEqual(yield* outcome("new\n", "newer", write, now), "happened")
      assert.strictEqual(yield* outcome("a\nb\n", "newer", insert, now), "happened")
      assert.strictEqual(yield* outcome("a\nb\na\n", "newer", insert, now), "unknown")
      assert.strictEqual(yield* outcome("a\n", "newer", insert, now), "unknown")
      assert.strictEqual(yield* outcome("b\n", "newer", remove, now), "happened")
      assert.strictEqual(yield* outcome("a\n", "newer", remove, now), "unknown")
      Fs.unlinkSync(file)
      const { reconcile } = FileTools.writeFile({ root }).options
      const gone = reconcile!("key", { path: "a.txt", ...write }, { startedAt: now } as never)
      assert.deepStrictEqual(yield* gone as Effect.Effect<Tool.Reconciled>, { _tag: "notHappened" })
    })
  )
})
