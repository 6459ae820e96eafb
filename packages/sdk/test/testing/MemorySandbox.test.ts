import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { RunId, SessionId } from "../../src/domain/Id.ts"
import * as MemorySandbox from "../../src/testing/MemorySandbox.ts"

const spec = { runId: RunId.make("run_1"), sessionId: SessionId.make("session_1") }

const opened = (options: MemorySandbox.Options = {}) => {
  const memory = MemorySandbox.make(options)
  return Effect.map(memory.provider.create(spec), (sandbox) => ({
    memory,
    sandbox,
    provider: memory.provider
  }))
}

describe("MemorySandbox", () => {
  it.effect("runs functions in the place of programs, on files that no disk has", () =>
    Effect.gen(function* () {
      const { memory, sandbox } = yield* opened({
        files: { "src/a.ts": "one" },
        commands: {
          append: async ({ args: [path = "", text = ""], files }) => {
            files.write(path, `${files.text(path) ?? ""}${text}`)
            return 0
          }
        }
      })
      assert.deepInclude(yield* sandbox.exec("append src/a.ts ' and two'"), { exitCode: 0 })
      assert.strictEqual((yield* sandbox.exec(["cat", "src/a.ts"])).stdout, "one and two")
      assert.strictEqual((yield* sandbox.exec("cat a.ts", { cwd: "src" })).stdout, "one and two")
      assert.strictEqual(yield* sandbox.files.readFileString("src/a.ts"), "one and two")
      assert.deepStrictEqual(memory.filesOf("run_1")?.paths, ["src/a.ts"])
      assert.deepStrictEqual(
        memory.ran.map(({ args, cwd, program }) => [program, args.join("|"), cwd]),
        [
          ["sh", "-c|append src/a.ts ' and two'", "/work"],
          ["cat", "src/a.ts", "/work"],
          ["sh", "-c|cat a.ts", "/work/src"]
        ]
      )
    })
  )

  it.effect("says what its shell does not understand, unless the test gives one", () =>
    Effect.gen(function* () {
      const { sandbox } = yield* opened()
      for (const line of ["echo a; echo b", "echo $HOME", "echo a > b", "cat *", "X=1 pwd", "echo 'a"])
        assert.deepInclude(yield* sandbox.exec(line), { exitCode: 2, stdout: "" }, line)
      assert.strictEqual((yield* sandbox.exec("nothing")).exitCode, 127)
      const given = yield* opened({
        shell: ({ args: [line], write }) => {
          write("stdout", `ran ${line}`)
          return 3
        }
      })
      assert.deepInclude(yield* given.sandbox.exec("a | b"), { exitCode: 3, stdout: "ran a | b" })
    })
  )

  it.effect("interrupts a command, and ends one that throws with exit code 1", () =>
    Effect.gen(function* () {
      const started = yield* Deferred.make<void>()
      const interrupted = yield* Deferred.make<void>()
      const { sandbox } = yield* opened({
        commands: {
          wait: () =>
            Effect.andThen(Deferred.succeed(started, undefined), Effect.never).pipe(
              Effect.onInterrupt(() => Deferred.succeed(interrupted, undefined))
            ),
          crash: () => {
            throw new Error("broken")
          }
        }
      })
      const running = yield* Effect.forkChild(sandbox.exec("wait"))
      yield* Deferred.await(started)
      yield* Fiber.interrupt(running)
      yield* Deferred.await(interrupted)
      assert.deepInclude(yield* sandbox.exec("crash"), { exitCode: 1, stderr: "Error: broken\n" })
    })
  )

  it.effect("keeps its files for another provider's user, until it is destroyed", () =>
    Effect.gen(function* () {
      const { provider, sandbox } = yield* opened()
      yield* sandbox.files.writeFileString("kept", "kept")
      const attached = yield* provider.attach(JSON.parse(JSON.stringify(sandbox.ref)))
      assert.strictEqual(yield* attached.files.readFileString("kept"), "kept")
      yield* provider.destroy(sandbox.ref)
      assert.strictEqual((yield* Effect.flip(provider.attach(sandbox.ref)))._tag, "SandboxLost")
    })
  )

  it.effect("starts with the files of its options in each new sandbox", () =>
    Effect.gen(function* () {
      const { memory, sandbox } = yield* opened({ files: { a: "a" } })
      yield* sandbox.files.remove("a")
      yield* memory.provider.create({ ...spec, runId: RunId.make("run_2") })
      assert.deepStrictEqual(memory.filesOf("run_1")?.paths, [])
      assert.deepStrictEqual(memory.filesOf("run_2")?.paths, ["a"])
    })
  )
})
