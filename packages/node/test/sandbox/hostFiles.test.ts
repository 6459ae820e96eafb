/**
 * The files of a sandbox elsewhere: how often they go to its machine, and what its links cannot do.
 */
import * as Fs from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Id, localSandbox, workspaceTools } from "@fermata/node"
import { makeSandbox } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import type { PathGuard } from "../../src/guard/PathGuard.ts"
import { guardedParts } from "../../src/sandbox/internal/guardedParts.ts"
import { hostGuard } from "../../src/sandbox/internal/hostFiles.ts"
import { localHost, type ShellHost } from "../../src/sandbox/internal/shellHost.ts"
import { caller } from "../tools/calling.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

const machine = localHost({ PATH: process.env["PATH"]! })

/** A guard of a directory of this machine that is reached by scripts, which are counted. */
const counted = Effect.map(temporaryDirectory, ({ top, workdir }) => {
  let scripts = 0
  const host: ShellHost = {
    run: (script, options) => {
      scripts += 1
      return machine.run(script, options)
    },
    follow: machine.follow
  }
  const guard = hostGuard(host, { write: [workdir] })
  /** The result of an operation, and how many scripts it took. */
  const count = <A, E, R>(operation: Effect.Effect<A, E, R>) =>
    Effect.suspend(() => {
      scripts = 0
      return Effect.map(Effect.result(operation), (result) => [result, scripts] as const)
    })
  return { top, workdir, guard, count, countOf: () => scripts }
})

const succeeded = ([{ _tag }, scripts]: readonly [{ readonly _tag: string }, number]) => [_tag, scripts]

/** A sandbox with these files and no commands. */
const sandboxWith = (guard: PathGuard, workdir: string) =>
  Effect.map(localSandbox({ workdir }).create(spec), ({ exec: _exec, files: _files, ...local }) =>
    makeSandbox({
      ...local,
      ...guardedParts(guard, workdir).parts,
      ref: { ...local.ref, backend: "elsewhere" }
    })
  )

const spec = { runId: Id.RunId.make("run_1"), sessionId: Id.SessionId.make("session_1") }

describe("the tools for files in a sandbox elsewhere", () => {
  it.live("go to its machine a few times for a call", () =>
    Effect.gen(function* () {
      const { countOf, guard, workdir } = yield* counted
      const sandbox = yield* sandboxWith(guard, workdir)
      const provider = {
        ...localSandbox({ workdir }),
        backend: "elsewhere",
        create: () => Effect.succeed(sandbox),
        attach: () => Effect.succeed(sandbox)
      }
      const call = yield* caller({ tools: workspaceTools({ shell: false }), sandbox: provider })
      const scripts = (tool: string, args: object) =>
        Effect.gen(function* () {
          const before = countOf()
          const { outcome, result } = yield* call(tool, args, { decide: "approve" })
          assert.strictEqual(outcome, "completed", result)
          return countOf() - before
        })
      const write = yield* scripts("write_file", { path: "src/a.ts", content: "one\n" })
      const edit = yield* scripts("edit_file", {
        path: "src/a.ts",
        edits: [{ oldText: "one", newText: "two" }]
      })
      const read = yield* scripts("read_file", { path: "src/a.ts" })
      const list = yield* scripts("list_dir", { path: "src" })
      // The rule, the facts, the facts again before the body, and the body, which looks, reads and writes.
      assert.deepStrictEqual({ write, edit, read, list }, { write: 8, edit: 8, read: 3, list: 4 })
    }).pipe(Effect.scoped)
  )
})

describe("the files of a sandbox elsewhere", () => {
  it.live("are read, written, listed, moved and removed by one script each", () =>
    Effect.gen(function* () {
      const { count, guard, workdir } = yield* counted
      const operations = {
        write: guard.writeFile("src/a.txt", "one"),
        replace: guard.writeFile("src/a.txt", "two"),
        read: guard.readFile("src/a.txt"),
        stat: guard.stat("src/a.txt"),
        list: guard.list("src"),
        make: guard.makeDirectory("new/deep"),
        rename: guard.rename("src/a.txt", "src/b.txt"),
        judge: Effect.all([guard.judge("src/b.txt", "read"), guard.judge("src/b.txt", "write")], {
          concurrency: 2
        }),
        remove: guard.remove("src/b.txt")
      }
      for (const [name, operation] of Object.entries(operations))
        assert.deepStrictEqual(succeeded(yield* count(operation)), ["Success", 1], name)
      assert.deepStrictEqual(succeeded(yield* count(guard.readFile("none.txt"))), ["Failure", 1])
      assert.deepStrictEqual(Fs.readdirSync(workdir).sort(), ["new", "src"])
    }).pipe(Effect.scoped)
  )

  it.live("are looked at together, each with its own answer", () =>
    Effect.gen(function* () {
      const { count, guard, workdir } = yield* counted
      const names = Array.from({ length: 20 }, (_, at) => `f${at}`)
      for (const [at, name] of names.entries())
        if (at !== 3) Fs.writeFileSync(join(workdir, name), "x".repeat(at))
      Fs.symlinkSync("loop", join(workdir, "loop"))
      const looks = [...names, "loop", "../x"].map((name) =>
        Effect.match(guard.stat(name), {
          onSuccess: ({ sizeBytes }) => sizeBytes,
          onFailure: ({ reason }) => reason
        })
      )
      const [result, scripts] = yield* count(Effect.all(looks, { concurrency: "unbounded" }))
      const sizes = names.map((_, at) => (at === 3 ? "notFound" : at))
      assert.deepStrictEqual(result._tag === "Success" && result.success, [...sizes, "linkLoop", "outside"])
      assert.strictEqual(scripts, 2)
    }).pipe(Effect.scoped)
  )

  it.live("are found through links that stay inside, and never through those that lead out", () =>
    Effect.gen(function* () {
      const { count, guard, top, workdir } = yield* counted
      Fs.mkdirSync(join(top, "out"))
      Fs.writeFileSync(join(top, "out/secret.txt"), "secret")
      Fs.mkdirSync(join(workdir, "in"))
      Fs.writeFileSync(join(workdir, "in/a.txt"), "inside")
      Fs.writeFileSync(join(workdir, ".env"), "KEY=1")
      Fs.symlinkSync("in", join(workdir, "link"))
      Fs.symlinkSync("../out", join(workdir, "away"))
      Fs.symlinkSync("../out/secret.txt", join(workdir, "file"))
      Fs.symlinkSync(".env", join(workdir, "settings"))
      Fs.linkSync(join(top, "out/secret.txt"), join(workdir, "hard"))

      const [read, scripts] = yield* count(guard.readFile("link/a.txt"))
      assert.strictEqual(read._tag === "Success" && Buffer.from(read.success).toString(), "inside")
      assert.isAtMost(scripts, 3)
      assert.deepStrictEqual(succeeded(yield* count(guard.writeFile("link/b.txt", "b"))), ["Success", 3])
      assert.strictEqual(Fs.readFileSync(join(workdir, "in/b.txt"), "utf8"), "b")

      const before = JSON.stringify([Fs.readdirSync(join(top, "out")), Fs.readdirSync(workdir)])
      for (const path of ["away/secret.txt", "file", "hard", "away/new.txt", "settings"])
        for (const operation of [guard.readFile(path), guard.writeFile(path, "x")]) {
          const [result] = yield* count(operation)
          const denied = result._tag === "Failure" ? result.failure._tag : "done"
          assert.strictEqual(denied, "PathDenied", path)
        }
      for (const operation of [
        guard.list("away"),
        guard.makeDirectory("away/deep"),
        guard.remove("away/secret.txt"),
        guard.rename("away/secret.txt", "taken"),
        guard.rename("in/a.txt", "away/a.txt"),
        guard.rename(".env", "public"),
        guard.remove(".", { recursive: true }),
        guard.rename(".", "in/a")
      ])
        assert.strictEqual((yield* count(operation))[0]._tag, "Failure")
      assert.strictEqual(JSON.stringify([Fs.readdirSync(join(top, "out")), Fs.readdirSync(workdir)]), before)
      assert.strictEqual(Fs.readFileSync(join(top, "out/secret.txt"), "utf8"), "secret")
      assert.strictEqual(Fs.readFileSync(join(workdir, ".env"), "utf8"), "KEY=1")
    }).pipe(Effect.scoped)
  )

  it.live("are left as they are if a directory becomes a link before the script", () =>
    Effect.gen(function* () {
      const { top, workdir } = yield* temporaryDirectory
      Fs.mkdirSync(join(top, "out"))
      Fs.mkdirSync(join(workdir, "place"))
      const swapping: ShellHost = {
        run: (script, options) =>
          Effect.suspend(() => {
            Fs.rmSync(join(workdir, "place"), { recursive: true, force: true })
            Fs.symlinkSync("../out", join(workdir, "place"))
            return machine.run(script, options)
          }),
        follow: machine.follow
      }
      const guard = hostGuard(swapping, { write: [workdir] })
      const error = yield* Effect.flip(guard.writeFile("place/x.txt", "x"))
      assert.strictEqual(error._tag, "PathDenied")
      assert.deepStrictEqual(Fs.readdirSync(join(top, "out")), [])
    }).pipe(Effect.scoped)
  )
})
